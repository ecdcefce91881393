/* A hook into Arm's inference runner (image.py), at the addresses of machine.py. It is placed in unused memory, and
 * the runner's call of its handler is led to it; ExecuTorch's code is not changed. machine.py has the bytes of this
 * file:
 *
 *   arm-none-eabi-as -mthumb runner_hooks.S -o hooks.o && arm-none-eabi-ld -Ttext=0x60000 hooks.o -o hooks.elf
 *   arm-none-eabi-objcopy -O binary -j .text hooks.elf hooks.bin
 *
 * The mailbox: executions done, and executions wanted.
 */
    .syntax unified
    .cpu cortex-m33
    .thumb
    .equ handler, 0x76c0        @ arm::app::RunInferenceHandler: inputs, execution, outputs
    .equ mailbox, 0x61000

loop:                           @ in place of handler: as often as wanted, while it succeeds
    push {r4, r5, r6, lr}
    mov r4, r0
    ldr r5, =mailbox
again:
    mov r0, r4
    bl handler
    cbz r0, ended
    ldrd r1, r2, [r5]
    adds r1, #1
    str r1, [r5]
    cmp r1, r2
    blt again
ended:
    pop {r4, r5, r6, pc}
