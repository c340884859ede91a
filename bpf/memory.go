package bpf

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxCandidates is how many places are tried for the mapping of all memory: it begins
// at a multiple of 1 GiB, at most as far below a page table as there is memory with its
// holes.
const maxCandidates = 4096

// pagings are the forms of page tables: how far an address is shifted for the uppermost
// index, and the bits of an entry that are an address. Encrypted memory (SME, SEV) marks
// its entries with bit 47 or 51.
var pagings = []struct {
	topShift uint32
	frames   uint64
}{
	{39, 1<<52 - 1<<12}, {48, 1<<52 - 1<<12},
	{39, 1<<47 - 1<<12}, {39, 1<<51 - 1<<12}, {48, 1<<51 - 1<<12},
}

// findMemory lets the walk read command lines, if it finds how: by trying it on
// memory of this process. Without, as under lockdown=confidentiality, there are none.
//
// Source: arch/x86/mm/kaslr.c; Documentation/arch/x86/x86_64/mm.rst.
func (t *Tasks) findMemory() error {
	u := t.unit
	at := map[string]memory{}
	for _, name := range []string{"memory_base", "frame_mask", "top_shift", "candidate", "sample_at", "sample", "slices", "slice"} {
		m, err := u.global(name)
		if err != nil {
			return err
		}
		at[name] = m
	}
	t.slices, t.slice = at["slices"], at["slice"]
	try, err := u.load("find_memory")
	if err != nil {
		return nil // the reason is the kernel's policy, and the list needs none of it
	}
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("take a page: %w", err)
	}
	defer unix.Munmap(page)
	rand.Read(page[:8])
	page[0] |= 1 // what is not found is 0
	at["sample"].setU64(0, binary.LittleEndian.Uint64(page))
	at["sample_at"].setU64(0, uint64(uintptr(unsafe.Pointer(&page[0]))))
	for _, paging := range pagings {
		at["top_shift"].setU32(0, paging.topShift)
		at["frame_mask"].setU64(0, paging.frames)
		for i := range uint32(maxCandidates) {
			at["candidate"].setU32(0, i)
			status, err := try.run()
			if err != nil {
				return err
			}
			if status == 0 {
				t.Commands = true
				return nil
			}
		}
	}
	return nil
}
