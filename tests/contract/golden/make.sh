# Writes what written_by_1e92c5bf.zip has, with the checkout of that commit as $1, in an empty folder.
set -u
E=$1/.venv/bin/etharness
export ETHARNESS_COMMIT=1e92c5bf COLUMNS=100
mkdir -p models; cp "$1"/firmware_stub/models/{small_int8,scalars}.pte models/
for i in 1 2 3 4 5 6; do
 ETHARNESS_SESSION=s$i $E run --board qemu-mps2-an385 --model models/small_int8.pte --runs 3 --history golden.db -o series/$i -q; echo "series $i $?"
done
$E check --suggest budget.toml series/1 series/2 -q; echo budget $?
ETHARNESS_SESSION=s7 $E run --board qemu-mps2-an385 --model models/small_int8.pte --runs 3 --history golden.db --baseline last:20 --budget budget.toml -o compared --report compared.zip -q; echo compared $?
cat > plan.toml <<'P'
schema = 1
name = "golden"
output = "nights"
repeats = 2
seed = 7
history = "golden.db"
reports = ["night.json"]

[[board]]
board = "qemu-mps2-an385"
count = 2

[[model]]
file = "models/small_int8.pte"
budget = "budget.toml"

[[model]]
file = "models/scalars.pte"

[run]
runs = 2
P
$E nightly plan.toml -q; echo night $?
$E history baseline set first --session s1 --history golden.db
$E history accept 'softmax*' --board qemu-mps2-an385 --unit qemu-mps2-an385 --model small_int8 --reason "a new kernel" --who ci --history golden.db --all
$E history ignore 'planned_1' --board qemu-mps2-an385 --model scalars --reason "known" --who ci --until 2030-01-31 --history golden.db --all
for b in native qemu-lm3s6965evb qemu-microbit qemu-mps2-an385 qemu-mps2-an386 qemu-mps2-an500 qemu-mps3-an547 qemu-netduinoplus2 qemu-riscv32-virt rtl-cv32e40p rtl-ibex rtl-vexriscv rtl-ibex-instructions; do
 $E run --board $b --model models/small_int8.pte --runs 3 --values outputs -o runs/$b -q; echo "$b $?"
done
