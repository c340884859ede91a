package bpf

import _ "embed"

// The compiled programs, made from src by `./build.sh bpf`; obj/VERSION names the
// compiler.

//go:embed obj/cpu.o
var cpuObject []byte

//go:embed obj/descriptors.o
var descriptorsObject []byte

//go:embed obj/io.o
var ioObject []byte

//go:embed obj/mappings.o
var mappingsObject []byte

//go:embed obj/tasks.o
var tasksObject []byte

//go:embed obj/threads.o
var threadsObject []byte
