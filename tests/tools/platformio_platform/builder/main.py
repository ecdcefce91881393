"""How this platform builds a program: what SCons reads."""

from SCons.Script import Default, DefaultEnvironment

env = DefaultEnvironment()
tools = {"CC": "gcc", "CXX": "g++", "AR": "ar", "AS": "as", "RANLIB": "ranlib"}
env.Replace(**{name: f"arm-none-eabi-{tool}" for name, tool in tools.items()}, PROGSUFFIX=".elf")
flags = ["-mcpu=cortex-m3", "-mthumb", "-Os", "-ffunction-sections", "-Wall", "-Wextra", "-Werror"]
newlib = ["--specs=rdimon.specs", "-Wl,--gc-sections", "-T", "memory.ld"]
env.Append(CCFLAGS=flags, LINKFLAGS=[*flags, *newlib])
Default(env.BuildProgram())
