# Functions that wait where their frame pointer is not theirs, that end with a
# call, and that are followed by instructions few decoders know. Each waits in
# pause(2) by itself: no libc in between.
	.intel_syntax noprefix
	.text

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm
	.macro end name
	.cfi_endproc
	.size \name, .-\name
	.endm

# before its push: the caller's frame pointer is in RBP, the return address at RSP
	function before_push
.Lbefore:
	mov eax, 34
	syscall
	jmp .Lbefore
	push rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov rbp, rsp
	pop rbp
	.cfi_def_cfa_offset 8
	ret
	end before_push

# after its pop: the same
	function after_pop
	push rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov rbp, rsp
	.cfi_def_cfa_register rbp
	pop rbp
	.cfi_def_cfa rsp, 8
.Lafter:
	mov eax, 34
	syscall
	jmp .Lafter
	ret
	end after_pop

	.macro caller name, callee
	function \name
	push rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov rbp, rsp
	.cfi_def_cfa_register rbp
	call \callee
	nop
	pop rbp
	.cfi_def_cfa rsp, 8
	ret
	end \name
	.endm
	caller direct_a, before_push
	caller grand_a, direct_a
	caller direct_b, after_pop
	caller grand_b, direct_b

	function waits
.Lwaits:
	mov eax, 34
	syscall
	jmp .Lwaits
	end waits

# its return address is the first byte of the next function
	function ends_in_call
	push rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov rbp, rsp
	.cfi_def_cfa_register rbp
	call waits
	end ends_in_call
	function neighbour
	ret
	end neighbour

	function lists
.Llists:
	mov eax, 34
	syscall
	.globl list_start
list_start:
	jmp .Llists
	endbr64
	vzeroupper
	vpaddq ymm0, ymm0, ymm1
	vpaddd zmm1{k2}{z}, zmm2, zmm3
	vaddps zmm5{k1}, zmm6, zmm7, {rz-sae}
	vmovdqu ymm2, ymmword ptr [rip + list_start]
	vpsllq ymm3, ymm4, 5
	kmovw k1, eax
	kxnorb k2, k3, k4
	pdep rax, rbx, rcx
	shlx r8, r9, r10
	rorx edx, esi, 7
	vaesenc ymm1, ymm2, ymm3
	gf2p8affineqb xmm1, xmm2, 3
	vpternlogd zmm1, zmm2, zmm3, 0x55
	vcvtph2ps ymm1, xmm2
	vpgatherdd ymm1, dword ptr [rax + 4*ymm2], ymm3
	rdpid rax
	lock cmpxchg16b xmmword ptr [rdi]
	nop word ptr [rax + rax]
	vzeroall
	call waits
	ret
	end lists
	.section .note.GNU-stack, "", @progbits
