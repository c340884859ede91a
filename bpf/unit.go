package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// unit is one object in the kernel: its tables, the programs that were chosen
// and their links. It owns every descriptor and closes each once.
//
// The order is newUnit, set and resize, create, load, attach, release, close.
type unit struct {
	obj      *object
	kernel   *btf.Spec
	tables   map[string]*table
	data     map[string]*table // by section
	resized  map[string]tableSpec
	contents map[string][]byte // of data sections, until create
	programs []*program
	rings    []*ring
}

func newUnit(obj *object, kernel *btf.Spec) *unit {
	u := &unit{
		obj: obj, kernel: kernel, tables: map[string]*table{}, data: map[string]*table{},
		resized: map[string]tableSpec{}, contents: map[string][]byte{},
	}
	for name, d := range obj.data {
		u.contents[name] = slices.Clone(d.contents)
	}
	return u
}

// variable finds a global variable.
func (u *unit) variable(name string) (section string, s span, err error) {
	for section, d := range u.obj.data {
		if s, ok := d.variables[name]; ok {
			return section, s, nil
		}
	}
	return "", span{}, fmt.Errorf("no variable %s", name)
}

// set gives a global variable its value before create. A variable of .rodata is
// a constant for the verifier: branches it rules out are not even checked.
func (u *unit) set(name string, v uint64) error {
	section, s, err := u.variable(name)
	if err != nil {
		return err
	}
	b := u.contents[section][s.offset : s.offset+s.size]
	switch s.size {
	case 1:
		b[0] = byte(v)
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	case 8:
		binary.LittleEndian.PutUint64(b, v)
	default:
		return fmt.Errorf("variable %s has %d bytes", name, s.size)
	}
	return nil
}

// setAll is set for several.
func (u *unit) setAll(values map[string]uint64) error {
	for name, v := range values {
		if err := u.set(name, v); err != nil {
			return err
		}
	}
	return nil
}

// resize gives a table another number of entries (of bytes, for a ring) before
// create.
func (u *unit) resize(name string, entries int) error {
	return u.reshape(name, func(t *tableSpec) { t.maxEntries = uint32(entries) })
}

// resizeValues gives the values of a table another number of bytes before create.
func (u *unit) resizeValues(name string, size int) error {
	return u.reshape(name, func(t *tableSpec) { t.valueSize = uint32(size) })
}

func (u *unit) reshape(name string, change func(*tableSpec)) error {
	if _, ok := u.obj.tables[name]; !ok {
		return fmt.Errorf("no table %s", name)
	}
	t := u.sized(name)
	change(&t)
	u.resized[name] = t
	return nil
}

// create makes the tables that the chosen programs use and the data sections;
// with no choice, all. Mapped arrays and data sections come mapped.
func (u *unit) create(programs ...string) error {
	wanted, err := u.obj.uses(programs)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(u.obj.tables)) {
		if len(programs) > 0 && !wanted[reference{kind: toTable, name: name}] {
			continue
		}
		spec := u.sized(name)
		t, err := createTable(name, spec)
		if err != nil {
			return err
		}
		u.tables[name] = t
		if spec.kind == unix.BPF_MAP_TYPE_ARRAY && spec.flags&unix.BPF_F_MMAPABLE != 0 {
			if err := t.mmap(spec.flags&unix.BPF_F_RDONLY_PROG == 0); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.obj.data)) {
		if err := u.createData(name); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) createData(name string) error {
	d := u.obj.data[name]
	spec := tableSpec{
		kind: unix.BPF_MAP_TYPE_ARRAY, keySize: 4, valueSize: uint32(len(d.contents)),
		maxEntries: 1, flags: unix.BPF_F_MMAPABLE,
	}
	if d.readOnly {
		spec.flags |= unix.BPF_F_RDONLY_PROG
	}
	t, err := createTable(strings.TrimPrefix(name, "."), spec)
	if err != nil {
		return err
	}
	u.data[name] = t
	if err := t.put(make([]byte, 4), u.contents[name]); err != nil {
		return err
	}
	if d.readOnly {
		return t.freeze()
	}
	return t.mmap(true)
}

// global returns the memory of a variable of .data or .bss.
func (u *unit) global(name string) (memory, error) {
	section, s, err := u.variable(name)
	if err != nil {
		return nil, err
	}
	t, ok := u.data[section]
	if !ok || t.mem == nil {
		return nil, fmt.Errorf("variable %s is not mapped", name)
	}
	return t.mem[s.offset : s.offset+s.size : s.offset+s.size], nil
}

// ring opens the reader of a ring table.
func (u *unit) ring(name string) (*ring, error) {
	t, ok := u.tables[name]
	if !ok {
		return nil, fmt.Errorf("no table %s", name)
	}
	r, err := openRing(t)
	if err != nil {
		return nil, err
	}
	u.rings = append(u.rings, r)
	return r, nil
}

// release forgets what only loading needs, which is several MiB of types. Globals
// can still be found; no program can be loaded any more.
func (u *unit) release() {
	u.kernel, u.contents = nil, nil
	u.obj = &object{data: u.obj.data}
}

// close detaches the programs and frees everything. A second call does nothing.
func (u *unit) close() error {
	var errs []error
	for _, p := range slices.Backward(u.programs) {
		errs = append(errs, p.close())
	}
	for _, r := range u.rings {
		errs = append(errs, r.close())
	}
	for _, set := range []map[string]*table{u.tables, u.data} {
		for _, t := range set {
			errs = append(errs, t.close())
		}
	}
	u.programs, u.rings = nil, nil
	clear(u.tables)
	clear(u.data)
	return errors.Join(errs...)
}
