package elf

import (
	"bytes"
	"fmt"
)

// Registers of x86-64 by their DWARF numbers, System V psABI figure 3.36.
const (
	RegRAX = iota
	RegRDX
	RegRCX
	RegRBX
	RegRSI
	RegRDI
	RegRBP
	RegRSP
	RegR8
	RegR9
	RegR10
	RegR11
	RegR12
	RegR13
	RegR14
	RegR15
	RegRIP // the column of the return address
	numRegisters
)

const (
	maxCFASteps  = 100_000 // instructions for one address
	maxCFAStates = 64      // remembered states
	maxFrameExpr = 4096    // bytes of one expression
)

// Registers are the integer registers of one frame as far as they are known. The
// zero value knows none.
type Registers struct {
	value [numRegisters]uint64
	known uint32
}

// Get returns a register by its DWARF number and whether it is known.
func (r *Registers) Get(n int) (uint64, bool) {
	if n < 0 || n >= numRegisters || r.known&(1<<n) == 0 {
		return 0, false
	}
	return r.value[n], true
}

// Set makes a register known; n is RegRAX to RegRIP.
func (r *Registers) Set(n int, v uint64) {
	r.value[n] = v
	r.known |= 1 << n
}

// Forget makes a register unknown.
func (r *Registers) Forget(n int) { r.known &^= 1 << n }

type ruleKind uint8

const (
	ruleNone      ruleKind = iota // nothing is said: the ABI decides
	ruleUndefined                 // lost
	ruleSame                      // not changed
	ruleAt                        // saved at CFA + n
	ruleIs                        // is CFA + n
	ruleRegister                  // is in register n
	ruleAtExpr                    // saved where expression n says
	ruleIsExpr                    // is what expression n says
)

type rule struct {
	kind ruleKind
	n    int64
}

// Rules says where a frame has the registers of its caller.
type Rules struct {
	// Signal is set for the frame of a signal handler's return (the S of the
	// augmentation): its caller was interrupted, not called, so the caller's
	// address is exact and not one behind a call.
	Signal bool
	// Start and End are the vaddrs of the function the rules are of, half-open.
	Start, End uint64

	cfa   rule // ruleIs: register reg + n; ruleIsExpr
	reg   uint8
	ra    uint8
	regs  [numRegisters]rule
	exprs [][]byte
}

// Last tells that there is no caller: the return address is undefined, as in the
// first function of a program or a thread.
func (r *Rules) Last() bool { return r.regs[r.ra].kind == ruleUndefined }

// cfaState is the machine that runs call frame instructions; reused.
type cfaState struct {
	now, initial row
	stack        []row
}

type row struct {
	cfa  rule
	reg  uint64
	regs [numRegisters]rule
}

// rules runs the instructions of f up to vaddr.
func (s *cfaState) rules(f fde, vaddr uint64) (Rules, error) {
	out := Rules{Signal: f.cie.signal, Start: f.start, End: f.start + f.length, ra: uint8(f.cie.ra)}
	s.now, s.stack = row{}, s.stack[:0]
	p := cfaProgram{cfaState: s, cie: f.cie, out: &out, want: vaddr, loc: f.start}
	if err := p.exec(f.cie.code, 0); err != nil {
		return Rules{}, err
	}
	s.initial = s.now
	p.inFDE = true
	if err := p.exec(f.code, f.codeAddr); err != nil {
		return Rules{}, err
	}
	if s.now.cfa.kind == ruleNone || s.now.reg >= numRegisters {
		return Rules{}, fmt.Errorf("no frame address for %#x: %w", vaddr, ErrFormat)
	}
	out.cfa, out.reg, out.regs = s.now.cfa, uint8(s.now.reg), s.now.regs
	return out, nil
}

type cfaProgram struct {
	*cfaState
	cie   *cie
	out   *Rules
	want  uint64
	loc   uint64
	steps int
	inFDE bool
}

// Call frame instructions, DWARF 5 §7.24 and include/dwarf2.def of gcc for GNU's.
const (
	cfaAdvanceLoc         = 0x40 // the high two bits; delta in the low six
	cfaOffset             = 0x80
	cfaRestore            = 0xc0
	cfaNop                = 0x00
	cfaSetLoc             = 0x01
	cfaAdvanceLoc1        = 0x02
	cfaAdvanceLoc2        = 0x03
	cfaAdvanceLoc4        = 0x04
	cfaOffsetExtended     = 0x05
	cfaRestoreExtended    = 0x06
	cfaUndefined          = 0x07
	cfaSameValue          = 0x08
	cfaRegister           = 0x09
	cfaRememberState      = 0x0a
	cfaRestoreState       = 0x0b
	cfaDefCFA             = 0x0c
	cfaDefCFARegister     = 0x0d
	cfaDefCFAOffset       = 0x0e
	cfaDefCFAExpression   = 0x0f
	cfaExpression         = 0x10
	cfaOffsetExtendedSF   = 0x11
	cfaDefCFASF           = 0x12
	cfaDefCFAOffsetSF     = 0x13
	cfaValOffset          = 0x14
	cfaValOffsetSF        = 0x15
	cfaValExpression      = 0x16
	cfaAdvanceLoc8        = 0x1d // DW_CFA_MIPS_advance_loc8
	cfaGNUArgsSize        = 0x2e
	cfaGNUNegOffsetExtend = 0x2f
)

// exec runs code until it is through or has passed the wanted address.
func (p *cfaProgram) exec(code []byte, addr uint64) error {
	r := cfiReader{b: code, addr: addr, noBase: true}
	for r.left() > 0 {
		if p.steps++; p.steps > maxCFASteps {
			return fmt.Errorf("more than %d instructions for %#x: %w", maxCFASteps, p.want, ErrTooBig)
		}
		op := r.u8()
		low := uint64(op & 0x3f)
		var err error
		passed := false
		switch op & 0xc0 {
		case cfaAdvanceLoc:
			passed = p.advance(low)
		case cfaOffset:
			p.set(low, ruleAt, p.scaled(r.uleb()))
		case cfaRestore:
			err = p.restore(low)
		default:
			passed, err = p.extended(op, &r)
		}
		if err != nil {
			return err
		}
		if r.bad {
			return fmt.Errorf("call frame instruction %#x is cut: %w", op, ErrFormat)
		}
		if passed {
			return nil
		}
	}
	return nil
}

// advance moves to the next location and tells whether that is behind the address
// whose rules are wanted.
func (p *cfaProgram) advance(delta uint64) bool {
	next := p.loc + delta*p.cie.codeAlign
	if next < p.loc { // malformed; nothing is behind it
		return true
	}
	p.loc = next
	return p.loc > p.want
}

func (p *cfaProgram) extended(op uint8, r *cfiReader) (passed bool, err error) {
	switch op {
	case cfaNop:
	case cfaSetLoc:
		if next := r.pointer(p.cie.enc); next < p.loc {
			return false, fmt.Errorf("location goes back to %#x: %w", next, ErrFormat)
		} else {
			p.loc = next
		}
		return p.loc > p.want, nil
	case cfaAdvanceLoc1:
		return p.advance(r.fixed(1)), nil
	case cfaAdvanceLoc2:
		return p.advance(r.fixed(2)), nil
	case cfaAdvanceLoc4:
		return p.advance(r.fixed(4)), nil
	case cfaAdvanceLoc8:
		return p.advance(r.fixed(8)), nil
	case cfaOffsetExtended:
		p.set(r.uleb(), ruleAt, p.scaled(r.uleb()))
	case cfaOffsetExtendedSF:
		p.set(r.uleb(), ruleAt, r.sleb()*p.cie.dataAlign)
	case cfaGNUNegOffsetExtend:
		p.set(r.uleb(), ruleAt, -p.scaled(r.uleb()))
	case cfaValOffset:
		p.set(r.uleb(), ruleIs, p.scaled(r.uleb()))
	case cfaValOffsetSF:
		p.set(r.uleb(), ruleIs, r.sleb()*p.cie.dataAlign)
	case cfaRegister:
		p.set(r.uleb(), ruleRegister, int64(r.uleb()))
	case cfaUndefined:
		p.set(r.uleb(), ruleUndefined, 0)
	case cfaSameValue:
		p.set(r.uleb(), ruleSame, 0)
	case cfaRestoreExtended:
		return false, p.restore(r.uleb())
	case cfaRememberState:
		if len(p.stack) >= maxCFAStates {
			return false, fmt.Errorf("more than %d remembered states: %w", maxCFAStates, ErrTooBig)
		}
		p.stack = append(p.stack, p.now)
	case cfaRestoreState:
		if len(p.stack) == 0 {
			return false, fmt.Errorf("no state to restore: %w", ErrFormat)
		}
		p.now = p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
	case cfaDefCFA:
		p.now.reg = r.uleb()
		p.now.cfa = rule{ruleIs, int64(r.uleb())}
	case cfaDefCFASF:
		p.now.reg = r.uleb()
		p.now.cfa = rule{ruleIs, r.sleb() * p.cie.dataAlign}
	case cfaDefCFARegister, cfaDefCFAOffset, cfaDefCFAOffsetSF:
		if p.now.cfa.kind != ruleIs {
			return false, fmt.Errorf("half of a frame address that is no register: %w", ErrFormat)
		}
		switch op {
		case cfaDefCFARegister:
			p.now.reg = r.uleb()
		case cfaDefCFAOffset:
			p.now.cfa.n = int64(r.uleb())
		default:
			p.now.cfa.n = r.sleb() * p.cie.dataAlign
		}
	case cfaDefCFAExpression:
		n, err := p.expression(r)
		if err != nil {
			return false, err
		}
		p.now.cfa, p.now.reg = rule{ruleIsExpr, n}, 0
	case cfaExpression, cfaValExpression:
		reg := r.uleb()
		n, err := p.expression(r)
		if err != nil {
			return false, err
		}
		kind := ruleAtExpr
		if op == cfaValExpression {
			kind = ruleIsExpr
		}
		p.set(reg, kind, n)
	case cfaGNUArgsSize:
		r.uleb() // how much to pop at a landing pad; the frame is not affected
	default:
		return false, fmt.Errorf("call frame instruction %#x: %w", op, ErrFormat)
	}
	return false, nil
}

func (p *cfaProgram) scaled(n uint64) int64 { return int64(n) * p.cie.dataAlign }

// set notes where a register is. Those above RIP, of vectors and flags, do not
// matter for a stack.
func (p *cfaProgram) set(reg uint64, kind ruleKind, n int64) {
	if reg < numRegisters {
		p.now.regs[reg] = rule{kind, n}
	}
}

func (p *cfaProgram) restore(reg uint64) error {
	if !p.inFDE {
		return fmt.Errorf("restore within a CIE: %w", ErrFormat)
	}
	if reg < numRegisters {
		p.now.regs[reg] = p.initial.regs[reg]
	}
	return nil
}

// expression copies one that follows in the instructions and returns its number.
func (p *cfaProgram) expression(r *cfiReader) (int64, error) {
	n := r.uleb()
	if n > maxFrameExpr {
		return 0, fmt.Errorf("expression of %d bytes: %w", n, ErrTooBig)
	}
	p.out.exprs = append(p.out.exprs, bytes.Clone(r.take(int(n))))
	return int64(len(p.out.exprs) - 1), nil
}
