package ptrace

// Instructions of the old maps that x86asm does not know, or shows without their
// operands. One a line: PLACE CONDITIONS NAME OPERANDS.
//
// Place is kind (l old maps, v VEX, e EVEX, x XOP), map and opcode. Conditions: the
// mandatory prefix (np, 66, f3, f2), W and L (w0, l1), operand size (o16, o32, o64),
// r for two registers and m for memory, /3 for ModRM.reg, =c8 for all of ModRM,
// +9e for the immediate; "-" for none. The first line that fits counts. Operands
// are explained at specialOperand.
const supplementLegacy = `
# String instructions, whose operands are not in ModRM.
l0.6c - insb Yb,$dx
l0.6d o16 insw Yw,$dx
l0.6d - insd Yd,$dx
l0.6e - outsb $dx,Xb
l0.6f o16 outsw $dx,Xw
l0.6f - outsd $dx,Xd
l0.a4 - movsb Yb,Xb
l0.a5 o16 movsw Yw,Xw
l0.a5 o32 movsd Yd,Xd
l0.a5 o64 movsq Yq,Xq
l0.a6 - cmpsb Xb,Yb
l0.a7 o16 cmpsw Xw,Yw
l0.a7 o32 cmpsd Xd,Yd
l0.a7 o64 cmpsq Xq,Yq
l0.aa - stosb Yb,$al
l0.ab o16 stosw Yw,$ax
l0.ab o32 stosd Yd,$eax
l0.ab o64 stosq Yq,$rax
l0.ac - lodsb $al,Xb
l0.ad o16 lodsw $ax,Xw
l0.ad o32 lodsd $eax,Xd
l0.ad o64 lodsq $rax,Xq
l0.ae - scasb $al,Yb
l0.af o16 scasw $ax,Yw
l0.af o32 scasd $eax,Yd
l0.af o64 scasq $rax,Yq
l0.d7 - xlatb
l0.cc - int3
l0.ca w1 retfq Iw
l0.cb w1 retfq

# System instructions by ModRM.
l1.00 /6,f2 lkgs Ew
l1.01 =c0 enclv
l1.01 =c1 vmcall
l1.01 =c2 vmlaunch
l1.01 =c3 vmresume
l1.01 =c4 vmxoff
l1.01 =c5 pconfig
l1.01 =c6,f2 rdmsrlist
l1.01 =c6,f3 wrmsrlist
l1.01 =c6 wrmsrns
l1.01 =c7 pbndkb
l1.01 =ca,f2 erets
l1.01 =ca,f3 eretu
l1.01 =ca clac
l1.01 =cb stac
l1.01 =cc,66 tdcall
l1.01 =cd,66 seamret
l1.01 =ce,66 seamops
l1.01 =cf,66 seamcall
l1.01 =cf encls
l1.01 =d4 vmfunc
l1.01 =d7 enclu
l1.01 =d8 vmrun
l1.01 =d9,f2 vmgexit
l1.01 =d9,f3 vmgexit
l1.01 =d9 vmmcall
l1.01 =da vmload
l1.01 =db vmsave
l1.01 =dc stgi
l1.01 =dd clgi
l1.01 =de skinit
l1.01 =df invlpga
l1.01 =e8,f2 xsusldtrk
l1.01 =e8,f3 setssbsy
l1.01 =e8 serialize
l1.01 =e9,f2 xresldtrk
l1.01 =ea,f3 saveprevssp
l1.01 =ec,f3 uiret
l1.01 =ed,f3 testui
l1.01 =ee,f3 clui
l1.01 =ee rdpkru
l1.01 =ef,f3 stui
l1.01 =ef wrpkru
l1.01 =fa,f3 mcommit
l1.01 =fa monitorx
l1.01 =fb mwaitx
l1.01 =fc clzero
l1.01 =fd,f3 rmpquery
l1.01 =fd rdpru
l1.01 =fe,f2 rmpupdate
l1.01 =fe,f3 rmpadjust
l1.01 =fe invlpgb
l1.01 =ff,f2 pvalidate
l1.01 =ff,f3 psmash
l1.01 =ff tlbsync
l1.01 /5,f3,m rstorssp Mq
l1.02 - lar Gv,Ew
l1.03 - lsl Gv,Ew
l1.07 w1 sysretq
l1.09 f3 wbnoinvd
l1.0d /1,m prefetchw Mb
l1.0d /2,m prefetchwt1 Mb
l1.0d m prefetch Mb
l1.0e - femms
l1.18 /6,m prefetchit1 Mb
l1.18 /7,m prefetchit0 Mb
l1.1c /0,m,np cldemote Mb
l1.1e =fa,f3 endbr64
l1.1e =fb,f3 endbr32
l1.1e /1,f3,r,w0 rdsspd Rd
l1.1e /1,f3,r,w1 rdsspq Rq
l1.1a f2 bndcu NDr,Eq
l1.1a f3 bndcl NDr,Eq
l1.1a 66 bndmov NDr,NDx
l1.1a m bndldx NDr,M
l1.1b f2 bndcn NDr,Eq
l1.1b f3,m bndmk NDr,M
l1.1b 66 bndmov NDx,NDr
l1.1b m bndstx M,NDr
l1.19 - nop Ev
l1.1a - nop Ev
l1.1b - nop Ev
l1.1c - nop Ev
l1.1d - nop Ev
l1.1e - nop Ev
l1.1f - nop Ev
l1.18 /4 nop Ev
l1.18 /5 nop Ev
l1.18 /6 nop Ev
l1.18 /7 nop Ev
l1.18 r nop Ev
l1.0d r nop Ev
l1.2b f3,m movntss Md,Vo
l1.2b f2,m movntsd Mq,Vo
l1.35 w1 sysexitq
l1.37 - getsec
l1.78 66,r,/0 extrq W16,Ib,IB
l1.78 f2,r insertq Vo,W16,Ib,IB
l1.78 np vmread Eq,Gq
l1.79 66,r extrq Vo,W16
l1.79 f2,r insertq Vo,W16
l1.79 np vmwrite Gq,Eq
l1.a6 =c0 montmul
l1.a6 =c8 xsha1
l1.a6 =d0 xsha256
l1.a7 =c0 xstorerng
l1.a7 =c8 xcryptecb
l1.a7 =d0 xcryptcbc
l1.a7 =d8 xcryptctr
l1.a7 =e0 xcryptcfb
l1.a7 =e8 xcryptofb
l1.b9 - ud1 Gv,Ev
l1.ff - ud0 Gv,Ev

# Group 15: fences, user waits, shadow stack, cache lines.
l1.ae /4,f3 ptwrite Ey
l1.ae /5,f3,r,w0 incsspd Rd
l1.ae /5,f3,r,w1 incsspq Rq
l1.ae /5,np,r lfence
l1.ae /6,66,m clwb Mb
l1.ae /6,66,r tpause Rd
l1.ae /6,f2,r umwait Rd
l1.ae /6,f3,m clrssbsy Mq
l1.ae /6,f3,r umonitor Ra
l1.ae /6,np,r mfence
l1.ae /7,66,m clflushopt Mb
l1.ae /7,np,m clflush Mb
l1.ae /7,np,r sfence

# Group 9.
l1.c7 /6,f3,r senduipi Rq
l1.c7 /6,r rdrand Rv
l1.c7 /6,66,m vmclear Mq
l1.c7 /6,f3,m vmxon Mq
l1.c7 /6,np,m vmptrld Mq
l1.c7 /7,f3,r rdpid Rq
l1.c7 /7,r rdseed Rv
l1.c7 /7,np,m vmptrst Mq

# 0F 38 and 0F 3A.
l2.80 66,m invept Gq,Mx
l2.81 66,m invvpid Gq,Mx
l2.82 66,m invpcid Gq,Mx
l2.8a np,m movrsb Gb,Mb
l2.8b np,m movrs Gv,Mv
l2.cf 66 gf2p8mulb Vo,W16
l2.d8 f3,m,/0 aesencwide128kl M
l2.d8 f3,m,/1 aesdecwide128kl M
l2.d8 f3,m,/2 aesencwide256kl M
l2.d8 f3,m,/3 aesdecwide256kl M
l2.dc f3,m aesenc128kl Vo,M
l2.dc f3,r loadiwkey Vo,W16
l2.dd f3,m aesdec128kl Vo,M
l2.de f3,m aesenc256kl Vo,M
l2.df f3,m aesdec256kl Vo,M
l2.f5 66,m,w0 wrussd Md,Gd
l2.f5 66,m,w1 wrussq Mq,Gq
l2.f6 np,m,w0 wrssd Md,Gd
l2.f6 np,m,w1 wrssq Mq,Gq
l2.f6 66 adcx Gy,Ey
l2.f6 f3 adox Gy,Ey
l2.f8 66,m movdir64b Ga,Mz
l2.f8 f2,m enqcmd Ga,Mz
l2.f8 f3,m enqcmds Ga,Mz
l2.f8 f2,r urdmsr Rq,Gq
l2.f8 f3,r uwrmsr Gq,Rq
l2.f9 np,m movdiri My,Gy
l2.fa f3,r encodekey128 Gd,Rd
l2.fb f3,r encodekey256 Gd,Rd
l2.fc np,m aadd My,Gy
l2.fc 66,m aand My,Gy
l2.fc f2,m aor My,Gy
l2.fc f3,m axor My,Gy
l3.ce 66 gf2p8affineqb Vo,W16,Ib
l3.cf 66 gf2p8affineinvqb Vo,W16,Ib
l3.f0 =c0,f3 hreset Ib

# 3DNow!, the opcode is the last byte.
l1.0f +0c pi2fw P,Q
l1.0f +0d pi2fd P,Q
l1.0f +1c pf2iw P,Q
l1.0f +1d pf2id P,Q
l1.0f +8a pfnacc P,Q
l1.0f +8e pfpnacc P,Q
l1.0f +90 pfcmpge P,Q
l1.0f +94 pfmin P,Q
l1.0f +96 pfrcp P,Q
l1.0f +97 pfrsqrt P,Q
l1.0f +9a pfsub P,Q
l1.0f +9e pfadd P,Q
l1.0f +a0 pfcmpgt P,Q
l1.0f +a4 pfmax P,Q
l1.0f +a6 pfrcpit1 P,Q
l1.0f +a7 pfrsqit1 P,Q
l1.0f +aa pfsubr P,Q
l1.0f +ae pfacc P,Q
l1.0f +b0 pfcmpeq P,Q
l1.0f +b4 pfmul P,Q
l1.0f +b6 pfrcpit2 P,Q
l1.0f +b7 pmulhrw P,Q
l1.0f +bb pswapd P,Q
l1.0f +bf pavgusb P,Q
`
