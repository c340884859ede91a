package elf

// Symbol is one entry of a symbol table.
//
// Shape: Name is raw, as the linker wrote it.
// Units: Size in bytes, 0 when the table does not say.
type Symbol struct {
	Name        string
	Value, Size uint64
}

// symbolTable is a compact sorted index of the function symbols of a file.
type symbolTable struct{}
