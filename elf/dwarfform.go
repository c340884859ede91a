package elf

import "fmt"

// Names and numbers of DWARF 5, section 7.5.3 to 7.5.6, and of its GNU
// extensions (include/dwarf2.def of binutils).
const (
	dwTagClass      = 0x02
	dwTagCompile    = 0x11
	dwTagStructure  = 0x13
	dwTagUnion      = 0x17
	dwTagInlined    = 0x1d
	dwTagSubprogram = 0x2e
	dwTagNamespace  = 0x39

	dwAtName         = 0x03
	dwAtStmtList     = 0x10
	dwAtLowPC        = 0x11
	dwAtHighPC       = 0x12
	dwAtLanguage     = 0x13
	dwAtCompDir      = 0x1b
	dwAtOrigin       = 0x31 // DW_AT_abstract_origin
	dwAtSpec         = 0x47 // DW_AT_specification
	dwAtRanges       = 0x55
	dwAtCallFile     = 0x58
	dwAtCallLine     = 0x59
	dwAtLinkage      = 0x6e
	dwAtStrBase      = 0x72 // DW_AT_str_offsets_base
	dwAtAddrBase     = 0x73
	dwAtRnglistsBase = 0x74
	dwAtMIPSLinkage  = 0x2007 // DW_AT_MIPS_linkage_name, before DWARF 4

	dwFormAddr       = 0x01
	dwFormBlock2     = 0x03
	dwFormBlock4     = 0x04
	dwFormData2      = 0x05
	dwFormData4      = 0x06
	dwFormData8      = 0x07
	dwFormString     = 0x08
	dwFormBlock      = 0x09
	dwFormBlock1     = 0x0a
	dwFormData1      = 0x0b
	dwFormFlag       = 0x0c
	dwFormSdata      = 0x0d
	dwFormStrp       = 0x0e
	dwFormUdata      = 0x0f
	dwFormRefAddr    = 0x10
	dwFormRef1       = 0x11
	dwFormRef2       = 0x12
	dwFormRef4       = 0x13
	dwFormRef8       = 0x14
	dwFormRefUdata   = 0x15
	dwFormIndirect   = 0x16
	dwFormSecOffset  = 0x17
	dwFormExprloc    = 0x18
	dwFormPresent    = 0x19
	dwFormStrx       = 0x1a
	dwFormAddrx      = 0x1b
	dwFormRefSup4    = 0x1c
	dwFormStrpSup    = 0x1d
	dwFormData16     = 0x1e
	dwFormLineStrp   = 0x1f
	dwFormRefSig8    = 0x20
	dwFormImplicit   = 0x21 // DW_FORM_implicit_const
	dwFormLoclistx   = 0x22
	dwFormRnglistx   = 0x23
	dwFormRefSup8    = 0x24
	dwFormStrx1      = 0x25
	dwFormStrx2      = 0x26
	dwFormStrx3      = 0x27
	dwFormStrx4      = 0x28
	dwFormAddrx1     = 0x29
	dwFormAddrx2     = 0x2a
	dwFormAddrx3     = 0x2b
	dwFormAddrx4     = 0x2c
	dwFormGNUAddrx   = 0x1f01 // DW_FORM_GNU_addr_index
	dwFormGNUStrx    = 0x1f02 // DW_FORM_GNU_str_index
	dwFormGNURefAlt  = 0x1f20
	dwFormGNUStrpAlt = 0x1f21
	dwFormLLVMAddrx  = 0x2001 // DW_FORM_LLVM_addrx_offset
)

// dwEnc is what the size of a form depends on.
type dwEnc struct {
	version uint8
	addr    uint8 // bytes of an address
	off     uint8 // bytes of an offset: 4, or 8 in 64-bit DWARF
}

// dwVal is the value of one attribute: u is the number, offset, index or
// reference as it stands; str is the text of DW_FORM_string.
type dwVal struct {
	form uint16
	u    uint64
	str  []byte
}

// Sizes of forms that are not a fixed number of bytes.
const (
	dwSizeLEB     = -1
	dwSizeString  = -2
	dwSizeOther   = -3 // blocks, indirect, LLVM_addrx_offset
	dwSizeUnknown = -4
)

// size returns the bytes a form takes, or one of the kinds above.
func (e dwEnc) size(form uint16) int {
	switch form {
	case dwFormPresent, dwFormImplicit:
		return 0
	case dwFormData1, dwFormRef1, dwFormFlag, dwFormStrx1, dwFormAddrx1:
		return 1
	case dwFormData2, dwFormRef2, dwFormStrx2, dwFormAddrx2:
		return 2
	case dwFormStrx3, dwFormAddrx3:
		return 3
	case dwFormData4, dwFormRef4, dwFormStrx4, dwFormAddrx4, dwFormRefSup4:
		return 4
	case dwFormData8, dwFormRef8, dwFormRefSig8, dwFormRefSup8:
		return 8
	case dwFormData16:
		return 16
	case dwFormAddr:
		return int(e.addr)
	case dwFormRefAddr:
		if e.version <= 2 { // DWARF 2, 7.5.4: the size of an address
			return int(e.addr)
		}
		return int(e.off)
	case dwFormStrp, dwFormSecOffset, dwFormLineStrp, dwFormStrpSup, dwFormGNURefAlt, dwFormGNUStrpAlt:
		return int(e.off)
	case dwFormSdata, dwFormUdata, dwFormRefUdata, dwFormStrx, dwFormAddrx, dwFormLoclistx, dwFormRnglistx, dwFormGNUAddrx, dwFormGNUStrx:
		return dwSizeLEB
	case dwFormString:
		return dwSizeString
	case dwFormBlock, dwFormBlock1, dwFormBlock2, dwFormBlock4, dwFormExprloc, dwFormIndirect, dwFormLLVMAddrx:
		return dwSizeOther
	}
	return dwSizeUnknown
}

// read reads the value of an attribute.
func (e dwEnc) read(r *dwBuf, form uint16, implicit int64) dwVal {
	v := dwVal{form: form}
	switch n := e.size(form); n {
	case 0:
		v.u = uint64(implicit)
		if form == dwFormPresent {
			v.u = 1
		}
	case dwSizeLEB:
		if form == dwFormSdata {
			v.u = uint64(r.sleb())
		} else {
			v.u = r.uleb()
		}
	case dwSizeString:
		v.str = r.cstr()
	case 16:
		r.skip(16)
	case dwSizeOther:
		return e.readOther(r, form)
	case dwSizeUnknown:
		r.bad = true
	default:
		v.u = r.uint(n)
	}
	return v
}

func (e dwEnc) readOther(r *dwBuf, form uint16) dwVal {
	v := dwVal{form: form}
	switch form {
	case dwFormBlock, dwFormExprloc:
		r.skip(r.uleb())
	case dwFormBlock1:
		r.skip(uint64(r.u8()))
	case dwFormBlock2:
		r.skip(uint64(r.u16()))
	case dwFormBlock4:
		r.skip(uint64(r.u32()))
	case dwFormLLVMAddrx:
		v.u = r.uleb()
		r.skip(4)
	case dwFormIndirect:
		f := r.uleb()
		if f == dwFormIndirect || f == dwFormImplicit || f > 0xffff {
			r.bad = true // would never end, or has no value here
			return v
		}
		return e.read(r, uint16(f), 0)
	}
	return v
}

// isAddress tells the address class, which of DW_AT_high_pc means that it is no length.
func (v dwVal) isAddress() bool {
	switch v.form {
	case dwFormAddr, dwFormAddrx, dwFormAddrx1, dwFormAddrx2, dwFormAddrx3, dwFormAddrx4, dwFormGNUAddrx, dwFormLLVMAddrx:
		return true
	}
	return false
}

// number returns a constant that fits 32 bits; others stand for nothing known.
func (v dwVal) number() uint32 {
	if v.u > 1<<31-1 {
		return 0
	}
	return uint32(v.u)
}

// format makes an error about what the bytes say.
func dwFormatError(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrFormat)...)
}
