# STM32F4, Cortex-M4. ET_CHIP is stm32f405 (1 MiB of flash; 128 KiB of RAM, and 64 KiB beside the core, unused)
# or stm32f446 (512 KiB, 128 KiB).
set(ET_CPU cortex-m4)
set(ET_CHIP stm32f405 CACHE STRING "stm32f405 (Netduino Plus 2) or stm32f446 (NUCLEO-F446RE)")
set(ET_MEMORY ${ET_CHIP}.ld)
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ET_RECEIVE_RING=1024 ET_SEND_RING=1024)
if(ET_CHIP STREQUAL stm32f446)
  set(ET_TIMER_HZ 90000000)
  add_compile_definitions(ET_NUCLEO_F446RE ET_UART_IRQ=38)
else()
  set(ET_TIMER_HZ 16000000 CACHE STRING "rate of TIM2: as the chip runs it, unless a simulator does otherwise")
  add_compile_definitions(ET_UART_IRQ=37)
endif()
add_compile_definitions(ET_TIMER_HZ=${ET_TIMER_HZ}u)

set(ET_DELEGATES_DEFAULT none)
set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=57344
  ET_ARENA_CAPACITY=34816
  ET_INPUT_CAPACITY=4096
  ET_TRACE_CAPACITY=16384
  ET_DEBUG_CAPACITY=2048
  ET_MTU=1024)
