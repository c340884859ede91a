package elf

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Languages of DW_AT_language whose functions may have no linkage name although
// they stand in a namespace or class (DWARF 5, 7.12, and the list kept at
// dwarfstd.org).
func (u *dwUnit) isCPP() bool {
	switch u.language {
	case 0x04, 0x1a, 0x21, 0x2b, 0x2c, 0x3a: // C++98, 11, 14, 17, 20, 23
		return true
	}
	return false
}

// funcName returns the linkage name of the function a DIE describes, else its
// name in the source, "" when there is none to be found.
func (u *dwUnit) funcName(die uint64) (string, error) {
	if name, ok := u.names[uint32(die)]; ok {
		return name, nil
	}
	name, err := u.readName(die)
	switch {
	case errors.Is(err, ErrFormat):
		name = "" // the rest of the answer is still good
	case err != nil:
		return "", err
	}
	if err := u.charge(int64(len(name)) + debugNameCost); err != nil {
		return "", err
	}
	if u.names == nil {
		u.names = make(map[uint32]string)
	}
	u.names[uint32(die)] = name
	return name, nil
}

// readName follows a DIE to those that it is an instance or a definition of.
func (u *dwUnit) readName(die uint64) (string, error) {
	name := ""
	for range maxOrigins {
		d, err := u.readNames(die)
		if err != nil {
			return "", err
		}
		if d.linkage != "" {
			return d.linkage, nil
		}
		name = cmp.Or(name, d.name)
		next, at, err := u.follow(d.origin)
		if err != nil {
			return name, err
		}
		if next == nil {
			break
		}
		u, die = next, at
	}
	if name == "" || !u.isCPP() {
		return name, nil
	}
	scope, err := u.scopeOf(die)
	if err != nil || len(scope)+len(name) > maxDebugName {
		return name, err
	}
	return scope + name, nil
}

// dwNames is what one DIE says of the name of its function.
type dwNames struct {
	name, linkage string
	origin        dwVal
	tag           uint16
}

func (u *dwUnit) readNames(die uint64) (n dwNames, err error) {
	r, a, err := u.die(die)
	if err != nil {
		return n, err
	}
	n.tag = a.tag
	var name, linkage dwVal
	for _, x := range a.attrs {
		v := u.enc.read(&r, x.form, x.implicit)
		switch x.attr {
		case dwAtName:
			name = v
		case dwAtLinkage, dwAtMIPSLinkage:
			linkage = v
		case dwAtOrigin, dwAtSpec:
			n.origin = v
		}
	}
	if r.bad {
		return n, dwFormatError("read DIE at %#x+%#x", u.off, die)
	}
	if err := u.d.spend(int64(len(a.attrs))); err != nil {
		return n, err
	}
	if n.linkage, err = u.str(linkage); err != nil || n.linkage != "" {
		return n, err
	}
	n.name, err = u.str(name)
	return n, err
}

// follow returns the unit a reference leads to and the DIE in it, nil for none.
// Type units hold declarations only and are not looked up.
func (u *dwUnit) follow(v dwVal) (*dwUnit, uint64, error) {
	d := u.d
	switch v.form {
	case dwFormRef1, dwFormRef2, dwFormRef4, dwFormRef8, dwFormRefUdata:
		return u, v.u, nil
	case dwFormRefAddr:
	case dwFormGNURefAlt, dwFormRefSup4, dwFormRefSup8:
		alt, err := d.alternate()
		if err != nil || alt == nil {
			return nil, 0, nil // Alt says why
		}
		d = alt
	default:
		return nil, 0, nil
	}
	next, err := d.unitWith(v.u)
	if err != nil {
		return nil, 0, err
	}
	return next, v.u - next.off, nil
}

// scopeOf returns what stands before the name of a DIE: "ns::Class::".
func (u *dwUnit) scopeOf(die uint64) (string, error) {
	if err := u.walk(); err != nil {
		return "", err
	}
	i, ok := slices.BinarySearchFunc(u.scopes, die, func(s dwScope, at uint64) int { return cmp.Compare(uint64(s.start), at) })
	if ok {
		i = int(u.scopes[i].parent)
	} else {
		i--
	}
	for i >= 0 && uint64(u.scopes[i].end) <= die {
		i = int(u.scopes[i].parent)
	}
	var parts []string
	for ; i >= 0 && len(parts) < maxScopesNested; i = int(u.scopes[i].parent) {
		part, err := u.scopeName(uint64(u.scopes[i].start))
		if err != nil {
			return "", err
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	slices.Reverse(parts)
	return strings.Join(parts, "::") + "::", nil
}

func (u *dwUnit) scopeName(die uint64) (string, error) {
	n, err := u.readNames(die)
	switch {
	case err != nil:
		return "", err
	case n.tag == dwTagSubprogram && n.linkage != "":
		return Demangle(n.linkage), nil
	case n.tag == dwTagSubprogram && n.name != "":
		return n.name + "()", nil
	case n.tag == dwTagNamespace && n.name == "":
		return "(anonymous namespace)", nil
	case n.tag == dwTagSubprogram:
		return "", nil
	case n.name == "":
		return "(anonymous class)", nil
	}
	return n.name, nil
}
