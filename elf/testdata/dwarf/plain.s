# An assembler source has lines but no functions.
	.text
	.globl	_start
_start:
	nop
	xorl	%eax, %eax
again:
	incl	%eax
	jmp	again
