package elf

import (
	"bytes"
	"fmt"
)

// addMini appends the symbols of .gnu_debugdata: an xz-compressed ELF file whose
// .symtab names the functions that .dynsym does not. A damaged one adds nothing.
//
// Source: GDB manual, "MiniDebugInfo".
func (f *File) addMini(t *symbolTable, s Section) error {
	small, err := f.openMini(s)
	if err != nil {
		return fmt.Errorf("read section %s: %w", s.Name, err)
	}
	tab, ok := small.Section(".symtab")
	if !ok {
		return nil
	}
	return f.addSymbols(t, small, tab)
}

// openMini decompresses the small file; its bytes stay charged to f.
func (f *File) openMini(s Section) (*File, error) {
	if s.Compressed || s.Size > maxXZ {
		return nil, fmt.Errorf("%d bytes: %w", s.Size, ErrTooBig)
	}
	if err := f.charge(int64(s.Size)); err != nil {
		return nil, err
	}
	defer f.charge(-int64(s.Size))
	b, err := f.readAt(s.Offset, s.Size)
	if err != nil {
		return nil, err
	}
	_, _, total, err := xzIndex(b)
	if err != nil {
		return nil, err
	}
	if total > maxFreeInflate && total/maxInflateRatio > s.Size {
		return nil, fmt.Errorf("%d bytes say they inflate to %d: %w", s.Size, total, ErrTooBig)
	}
	if err := f.charge(int64(total)); err != nil {
		return nil, err
	}
	plain, err := decodeXZ(b)
	if err == nil {
		var small *File
		// Only its headers are read through it; its own account is not used.
		if small, err = open(bytes.NewReader(plain), int64(len(plain)), newAccount(0)); err == nil {
			return small, nil
		}
	}
	_ = f.charge(-int64(total))
	return nil, err
}
