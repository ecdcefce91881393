/* Hooks into Arm's inference runner (image.py), at the addresses of machine.py. They are placed in unused
 * memory, and calls of the runner are led to them; ExecuTorch's code is not changed. machine.py has the bytes
 * of this file:
 *
 *   arm-none-eabi-as -mthumb runner_hooks.S -o hooks.o && arm-none-eabi-ld -Ttext=0x60000 hooks.o -o hooks.elf
 *   arm-none-eabi-objcopy -O binary -j .text hooks.elf hooks.bin
 *
 * The mailbox: executions done, executions wanted, a saved return address, unused, start and end of loading,
 * and of each execution; readings of the system counter.
 */
    .syntax unified
    .cpu cortex-m33
    .thumb
    .equ handler, 0x76c0        @ arm::app::RunInferenceHandler: inputs, execution, outputs
    .equ execute, 0x3cf50       @ executorch::runtime::Method::execute
    .equ load_method, 0x400b8   @ executorch::runtime::Program::load_method
    .equ mailbox, 0x61000
    .equ counter, 0x49302018

loop:                           @ in place of handler: as often as wanted, while it succeeds
    push {r4, r5, r6, lr}
    mov r4, r0
    ldr r5, =mailbox
again:
    mov r0, r4
    bl handler
    cbz r0, ended
    ldrd r1, r2, [r5]
    cmp r1, r2
    blt again
ended:
    pop {r4, r5, r6, pc}

    .align 2
timed_execute:                  @ in place of execute
    push {r4, r5, r6, lr}
    ldr r4, =counter
    ldr r5, [r4]
    bl execute
    ldr r1, [r4]
    ldr r2, =mailbox
    ldr r3, [r2]
    adds r3, #1
    str r3, [r2]
    add r2, r2, r3, lsl #3
    strd r5, r1, [r2, #16]
    pop {r4, r5, r6, pc}

    .align 2
timed_load:                     @ in place of load_method, which has arguments on the stack
    ldr r12, =mailbox
    str lr, [r12, #8]
    ldr lr, =counter
    ldr lr, [lr]
    str lr, [r12, #16]
    bl load_method
    ldr r12, =mailbox
    ldr r1, =counter
    ldr r1, [r1]
    str r1, [r12, #20]
    ldr pc, [r12, #8]
    .ltorg
