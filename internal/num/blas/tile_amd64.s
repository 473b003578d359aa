#include "textflag.h"

// Tiles of 4 rows and three vectors, in AVX2 (Y, 4 numbers) and AVX-512 (Z, 8 numbers): sums in
// registers 0 to 11, row by row, a row of the panel of b in 12 to 14, an element of a in 15. AX is
// what is left of k, SI and DI walk the panels, DX and R8 are c and the bytes between its rows.
// Narrow tiles use the first one or two vectors of the same panels. Where rows of b are windows of
// other numbers, their offsets are at R9 and the numbers at BX; where those of a are, their first
// elements are at R10 to R13 and the offsets of their columns at R9.

#define ARGUMENTS \
	MOVQ k+0(FP), AX \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), DI \
	MOVQ c+24(FP), DX \
	MOVQ ldc+32(FP), R8 \
	SHLQ $3, R8

#define SLIDING \
	MOVQ k+0(FP), AX \
	MOVQ a+8(FP), SI \
	MOVQ x+16(FP), BX \
	MOVQ at+24(FP), R9 \
	MOVQ c+32(FP), DX \
	MOVQ ldc+40(FP), R8 \
	SHLQ $3, R8

#define GATHERING \
	MOVQ k+0(FP), AX \
	MOVQ x+8(FP), BX \
	MOVQ rows+16(FP), SI \
	MOVQ 0(SI), R10 \
	MOVQ 8(SI), R11 \
	MOVQ 16(SI), R12 \
	MOVQ 24(SI), R13 \
	LEAQ (BX)(R10*8), R10 \
	LEAQ (BX)(R11*8), R11 \
	LEAQ (BX)(R12*8), R12 \
	LEAQ (BX)(R13*8), R13 \
	MOVQ at+24(FP), R9 \
	MOVQ b+32(FP), DI \
	MOVQ c+40(FP), DX \
	MOVQ ldc+48(FP), R8 \
	SHLQ $3, R8

#define CLEARY \
	VXORPD Y0, Y0, Y0 \
	VXORPD Y1, Y1, Y1 \
	VXORPD Y2, Y2, Y2 \
	VXORPD Y3, Y3, Y3 \
	VXORPD Y4, Y4, Y4 \
	VXORPD Y5, Y5, Y5 \
	VXORPD Y6, Y6, Y6 \
	VXORPD Y7, Y7, Y7 \
	VXORPD Y8, Y8, Y8 \
	VXORPD Y9, Y9, Y9 \
	VXORPD Y10, Y10, Y10 \
	VXORPD Y11, Y11, Y11

#define ROWY3(at, s0, s1, s2) \
	VBROADCASTSD at(SI), Y15 \
	VFMADD231PD Y12, Y15, s0 \
	VFMADD231PD Y13, Y15, s1 \
	VFMADD231PD Y14, Y15, s2

#define STEPY3(a, b) \
	VMOVUPD b(DI), Y12 \
	VMOVUPD (b+32)(DI), Y13 \
	VMOVUPD (b+64)(DI), Y14 \
	ROWY3(a, Y0, Y1, Y2) \
	ROWY3(a+8, Y3, Y4, Y5) \
	ROWY3(a+16, Y6, Y7, Y8) \
	ROWY3(a+24, Y9, Y10, Y11)

#define PUTY3(s0, s1, s2) \
	VMOVUPD s0, (DX) \
	VMOVUPD s1, 32(DX) \
	VMOVUPD s2, 64(DX) \
	ADDQ R8, DX

#define ADDY3(s0, s1, s2) \
	VADDPD (DX), s0, s0 \
	VADDPD 32(DX), s1, s1 \
	VADDPD 64(DX), s2, s2 \
	PUTY3(s0, s1, s2)

#define ROWY2(at, s0, s1) \
	VBROADCASTSD at(SI), Y15 \
	VFMADD231PD Y12, Y15, s0 \
	VFMADD231PD Y13, Y15, s1

#define STEPY2(a, b) \
	VMOVUPD b(DI), Y12 \
	VMOVUPD (b+32)(DI), Y13 \
	ROWY2(a, Y0, Y1) \
	ROWY2(a+8, Y3, Y4) \
	ROWY2(a+16, Y6, Y7) \
	ROWY2(a+24, Y9, Y10)

#define PUTY2(s0, s1) \
	VMOVUPD s0, (DX) \
	VMOVUPD s1, 32(DX) \
	ADDQ R8, DX

#define ADDY2(s0, s1) \
	VADDPD (DX), s0, s0 \
	VADDPD 32(DX), s1, s1 \
	PUTY2(s0, s1)

#define ROWY1(at, s0) \
	VBROADCASTSD at(SI), Y15 \
	VFMADD231PD Y12, Y15, s0

#define STEPY1(a, b) \
	VMOVUPD b(DI), Y12 \
	ROWY1(a, Y0) \
	ROWY1(a+8, Y3) \
	ROWY1(a+16, Y6) \
	ROWY1(a+24, Y9)

#define PUTY1(s0) \
	VMOVUPD s0, (DX) \
	ADDQ R8, DX

#define ADDY1(s0) \
	VADDPD (DX), s0, s0 \
	PUTY1(s0)

// func tile3(k int, a, b, c *float64, ldc int, add bool)
TEXT ·tile3(SB), NOSPLIT, $0-41
	ARGUMENTS
	CLEARY
	SUBQ $4, AX
	JLT  rest

four:
	STEPY3(0, 0)
	STEPY3(32, 96)
	STEPY3(64, 192)
	STEPY3(96, 288)
	ADDQ $128, SI
	ADDQ $384, DI
	SUBQ $4, AX
	JGE  four

rest:
	ADDQ $4, AX
	JZ   done

one:
	STEPY3(0, 0)
	ADDQ $32, SI
	ADDQ $96, DI
	DECQ AX
	JNZ  one

done:
	CMPB add+40(FP), $0
	JNE  add
	PUTY3(Y0, Y1, Y2)
	PUTY3(Y3, Y4, Y5)
	PUTY3(Y6, Y7, Y8)
	PUTY3(Y9, Y10, Y11)
	VZEROUPPER
	RET

add:
	ADDY3(Y0, Y1, Y2)
	ADDY3(Y3, Y4, Y5)
	ADDY3(Y6, Y7, Y8)
	ADDY3(Y9, Y10, Y11)
	VZEROUPPER
	RET

// func tile2(k int, a, b, c *float64, ldc int, add bool)
TEXT ·tile2(SB), NOSPLIT, $0-41
	ARGUMENTS
	CLEARY

one:
	STEPY2(0, 0)
	ADDQ $32, SI
	ADDQ $96, DI
	DECQ AX
	JNZ  one
	CMPB add+40(FP), $0
	JNE  add
	PUTY2(Y0, Y1)
	PUTY2(Y3, Y4)
	PUTY2(Y6, Y7)
	PUTY2(Y9, Y10)
	VZEROUPPER
	RET

add:
	ADDY2(Y0, Y1)
	ADDY2(Y3, Y4)
	ADDY2(Y6, Y7)
	ADDY2(Y9, Y10)
	VZEROUPPER
	RET

// func tile1(k int, a, b, c *float64, ldc int, add bool)
TEXT ·tile1(SB), NOSPLIT, $0-41
	ARGUMENTS
	CLEARY

one:
	STEPY1(0, 0)
	ADDQ $32, SI
	ADDQ $96, DI
	DECQ AX
	JNZ  one
	CMPB add+40(FP), $0
	JNE  add
	PUTY1(Y0)
	PUTY1(Y3)
	PUTY1(Y6)
	PUTY1(Y9)
	VZEROUPPER
	RET

add:
	ADDY1(Y0)
	ADDY1(Y3)
	ADDY1(Y6)
	ADDY1(Y9)
	VZEROUPPER
	RET

#define CLEARZ \
	VPXORQ Z0, Z0, Z0 \
	VPXORQ Z1, Z1, Z1 \
	VPXORQ Z2, Z2, Z2 \
	VPXORQ Z3, Z3, Z3 \
	VPXORQ Z4, Z4, Z4 \
	VPXORQ Z5, Z5, Z5 \
	VPXORQ Z6, Z6, Z6 \
	VPXORQ Z7, Z7, Z7 \
	VPXORQ Z8, Z8, Z8 \
	VPXORQ Z9, Z9, Z9 \
	VPXORQ Z10, Z10, Z10 \
	VPXORQ Z11, Z11, Z11

#define ROWZ3(at, s0, s1, s2) \
	VBROADCASTSD at(SI), Z15 \
	VFMADD231PD Z12, Z15, s0 \
	VFMADD231PD Z13, Z15, s1 \
	VFMADD231PD Z14, Z15, s2

#define STEPZ3(a, b) \
	VMOVUPD b(DI), Z12 \
	VMOVUPD (b+64)(DI), Z13 \
	VMOVUPD (b+128)(DI), Z14 \
	ROWZ3(a, Z0, Z1, Z2) \
	ROWZ3(a+8, Z3, Z4, Z5) \
	ROWZ3(a+16, Z6, Z7, Z8) \
	ROWZ3(a+24, Z9, Z10, Z11)

#define PUTZ3(s0, s1, s2) \
	VMOVUPD s0, (DX) \
	VMOVUPD s1, 64(DX) \
	VMOVUPD s2, 128(DX) \
	ADDQ R8, DX

#define ADDZ3(s0, s1, s2) \
	VADDPD (DX), s0, s0 \
	VADDPD 64(DX), s1, s1 \
	VADDPD 128(DX), s2, s2 \
	PUTZ3(s0, s1, s2)

#define ROWZ2(at, s0, s1) \
	VBROADCASTSD at(SI), Z15 \
	VFMADD231PD Z12, Z15, s0 \
	VFMADD231PD Z13, Z15, s1

#define STEPZ2(a, b) \
	VMOVUPD b(DI), Z12 \
	VMOVUPD (b+64)(DI), Z13 \
	ROWZ2(a, Z0, Z1) \
	ROWZ2(a+8, Z3, Z4) \
	ROWZ2(a+16, Z6, Z7) \
	ROWZ2(a+24, Z9, Z10)

#define PUTZ2(s0, s1) \
	VMOVUPD s0, (DX) \
	VMOVUPD s1, 64(DX) \
	ADDQ R8, DX

#define ADDZ2(s0, s1) \
	VADDPD (DX), s0, s0 \
	VADDPD 64(DX), s1, s1 \
	PUTZ2(s0, s1)

#define ROWZ1(at, s0) \
	VBROADCASTSD at(SI), Z15 \
	VFMADD231PD Z12, Z15, s0

#define STEPZ1(a, b) \
	VMOVUPD b(DI), Z12 \
	ROWZ1(a, Z0) \
	ROWZ1(a+8, Z3) \
	ROWZ1(a+16, Z6) \
	ROWZ1(a+24, Z9)

#define PUTZ1(s0) \
	VMOVUPD s0, (DX) \
	ADDQ R8, DX

#define ADDZ1(s0) \
	VADDPD (DX), s0, s0 \
	PUTZ1(s0)

// func tileWide3(k int, a, b, c *float64, ldc int, add bool)
TEXT ·tileWide3(SB), NOSPLIT, $0-41
	ARGUMENTS
	CLEARZ
	SUBQ $4, AX
	JLT  rest

four:
	STEPZ3(0, 0)
	STEPZ3(32, 192)
	STEPZ3(64, 384)
	STEPZ3(96, 576)
	ADDQ $128, SI
	ADDQ $768, DI
	SUBQ $4, AX
	JGE  four

rest:
	ADDQ $4, AX
	JZ   done

one:
	STEPZ3(0, 0)
	ADDQ $32, SI
	ADDQ $192, DI
	DECQ AX
	JNZ  one

done:
	CMPB add+40(FP), $0
	JNE  add
	PUTZ3(Z0, Z1, Z2)
	PUTZ3(Z3, Z4, Z5)
	PUTZ3(Z6, Z7, Z8)
	PUTZ3(Z9, Z10, Z11)
	VZEROUPPER
	RET

add:
	ADDZ3(Z0, Z1, Z2)
	ADDZ3(Z3, Z4, Z5)
	ADDZ3(Z6, Z7, Z8)
	ADDZ3(Z9, Z10, Z11)
	VZEROUPPER
	RET

// func tileWide2(k int, a, b, c *float64, ldc int, add bool)
TEXT ·tileWide2(SB), NOSPLIT, $0-41
	ARGUMENTS
	CLEARZ

one:
	STEPZ2(0, 0)
	ADDQ $32, SI
	ADDQ $192, DI
	DECQ AX
	JNZ  one
	CMPB add+40(FP), $0
	JNE  add
	PUTZ2(Z0, Z1)
	PUTZ2(Z3, Z4)
	PUTZ2(Z6, Z7)
	PUTZ2(Z9, Z10)
	VZEROUPPER
	RET

add:
	ADDZ2(Z0, Z1)
	ADDZ2(Z3, Z4)
	ADDZ2(Z6, Z7)
	ADDZ2(Z9, Z10)
	VZEROUPPER
	RET

// func tileWide1(k int, a, b, c *float64, ldc int, add bool)
TEXT ·tileWide1(SB), NOSPLIT, $0-41
	ARGUMENTS
	CLEARZ

one:
	STEPZ1(0, 0)
	ADDQ $32, SI
	ADDQ $192, DI
	DECQ AX
	JNZ  one
	CMPB add+40(FP), $0
	JNE  add
	PUTZ1(Z0)
	PUTZ1(Z3)
	PUTZ1(Z6)
	PUTZ1(Z9)
	VZEROUPPER
	RET

add:
	ADDZ1(Z0)
	ADDZ1(Z3)
	ADDZ1(Z6)
	ADDZ1(Z9)
	VZEROUPPER
	RET

#define SLIDEY3(a, l) \
	MOVQ l(R9), DI \
	LEAQ (BX)(DI*8), DI \
	VMOVUPD (DI), Y12 \
	VMOVUPD 32(DI), Y13 \
	VMOVUPD 64(DI), Y14 \
	ROWY3(a, Y0, Y1, Y2) \
	ROWY3(a+8, Y3, Y4, Y5) \
	ROWY3(a+16, Y6, Y7, Y8) \
	ROWY3(a+24, Y9, Y10, Y11)

#define GATHERY3 \
	MOVQ (R9), SI \
	VMOVUPD (DI), Y12 \
	VMOVUPD 32(DI), Y13 \
	VMOVUPD 64(DI), Y14 \
	VBROADCASTSD (R10)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y0 \
	VFMADD231PD Y13, Y15, Y1 \
	VFMADD231PD Y14, Y15, Y2 \
	VBROADCASTSD (R11)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y3 \
	VFMADD231PD Y13, Y15, Y4 \
	VFMADD231PD Y14, Y15, Y5 \
	VBROADCASTSD (R12)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y6 \
	VFMADD231PD Y13, Y15, Y7 \
	VFMADD231PD Y14, Y15, Y8 \
	VBROADCASTSD (R13)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y9 \
	VFMADD231PD Y13, Y15, Y10 \
	VFMADD231PD Y14, Y15, Y11

// func slide3(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·slide3(SB), NOSPLIT, $0-49
	SLIDING
	CLEARY
	SUBQ $2, AX
	JLT  rest

two:
	SLIDEY3(0, 0)
	SLIDEY3(32, 8)
	ADDQ $64, SI
	ADDQ $16, R9
	SUBQ $2, AX
	JGE  two

rest:
	ADDQ $2, AX
	JZ   done
	SLIDEY3(0, 0)

done:
	CMPB add+48(FP), $0
	JNE  add
	PUTY3(Y0, Y1, Y2)
	PUTY3(Y3, Y4, Y5)
	PUTY3(Y6, Y7, Y8)
	PUTY3(Y9, Y10, Y11)
	VZEROUPPER
	RET

add:
	ADDY3(Y0, Y1, Y2)
	ADDY3(Y3, Y4, Y5)
	ADDY3(Y6, Y7, Y8)
	ADDY3(Y9, Y10, Y11)
	VZEROUPPER
	RET

// func gather3(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)
TEXT ·gather3(SB), NOSPLIT, $0-57
	GATHERING
	CLEARY

one:
	GATHERY3
	ADDQ $96, DI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+56(FP), $0
	JNE  add
	PUTY3(Y0, Y1, Y2)
	PUTY3(Y3, Y4, Y5)
	PUTY3(Y6, Y7, Y8)
	PUTY3(Y9, Y10, Y11)
	VZEROUPPER
	RET

add:
	ADDY3(Y0, Y1, Y2)
	ADDY3(Y3, Y4, Y5)
	ADDY3(Y6, Y7, Y8)
	ADDY3(Y9, Y10, Y11)
	VZEROUPPER
	RET

#define SLIDEY2(a, l) \
	MOVQ l(R9), DI \
	LEAQ (BX)(DI*8), DI \
	VMOVUPD (DI), Y12 \
	VMOVUPD 32(DI), Y13 \
	ROWY2(a, Y0, Y1) \
	ROWY2(a+8, Y3, Y4) \
	ROWY2(a+16, Y6, Y7) \
	ROWY2(a+24, Y9, Y10)

#define GATHERY2 \
	MOVQ (R9), SI \
	VMOVUPD (DI), Y12 \
	VMOVUPD 32(DI), Y13 \
	VBROADCASTSD (R10)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y0 \
	VFMADD231PD Y13, Y15, Y1 \
	VBROADCASTSD (R11)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y3 \
	VFMADD231PD Y13, Y15, Y4 \
	VBROADCASTSD (R12)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y6 \
	VFMADD231PD Y13, Y15, Y7 \
	VBROADCASTSD (R13)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y9 \
	VFMADD231PD Y13, Y15, Y10

// func slide2(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·slide2(SB), NOSPLIT, $0-49
	SLIDING
	CLEARY

one:
	SLIDEY2(0, 0)
	ADDQ $32, SI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+48(FP), $0
	JNE  add
	PUTY2(Y0, Y1)
	PUTY2(Y3, Y4)
	PUTY2(Y6, Y7)
	PUTY2(Y9, Y10)
	VZEROUPPER
	RET

add:
	ADDY2(Y0, Y1)
	ADDY2(Y3, Y4)
	ADDY2(Y6, Y7)
	ADDY2(Y9, Y10)
	VZEROUPPER
	RET

// func gather2(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)
TEXT ·gather2(SB), NOSPLIT, $0-57
	GATHERING
	CLEARY

one:
	GATHERY2
	ADDQ $96, DI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+56(FP), $0
	JNE  add
	PUTY2(Y0, Y1)
	PUTY2(Y3, Y4)
	PUTY2(Y6, Y7)
	PUTY2(Y9, Y10)
	VZEROUPPER
	RET

add:
	ADDY2(Y0, Y1)
	ADDY2(Y3, Y4)
	ADDY2(Y6, Y7)
	ADDY2(Y9, Y10)
	VZEROUPPER
	RET

#define SLIDEY1(a, l) \
	MOVQ l(R9), DI \
	LEAQ (BX)(DI*8), DI \
	VMOVUPD (DI), Y12 \
	ROWY1(a, Y0) \
	ROWY1(a+8, Y3) \
	ROWY1(a+16, Y6) \
	ROWY1(a+24, Y9)

#define GATHERY1 \
	MOVQ (R9), SI \
	VMOVUPD (DI), Y12 \
	VBROADCASTSD (R10)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y0 \
	VBROADCASTSD (R11)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y3 \
	VBROADCASTSD (R12)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y6 \
	VBROADCASTSD (R13)(SI*8), Y15 \
	VFMADD231PD Y12, Y15, Y9

// func slide1(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·slide1(SB), NOSPLIT, $0-49
	SLIDING
	CLEARY

one:
	SLIDEY1(0, 0)
	ADDQ $32, SI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+48(FP), $0
	JNE  add
	PUTY1(Y0)
	PUTY1(Y3)
	PUTY1(Y6)
	PUTY1(Y9)
	VZEROUPPER
	RET

add:
	ADDY1(Y0)
	ADDY1(Y3)
	ADDY1(Y6)
	ADDY1(Y9)
	VZEROUPPER
	RET

// func gather1(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)
TEXT ·gather1(SB), NOSPLIT, $0-57
	GATHERING
	CLEARY

one:
	GATHERY1
	ADDQ $96, DI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+56(FP), $0
	JNE  add
	PUTY1(Y0)
	PUTY1(Y3)
	PUTY1(Y6)
	PUTY1(Y9)
	VZEROUPPER
	RET

add:
	ADDY1(Y0)
	ADDY1(Y3)
	ADDY1(Y6)
	ADDY1(Y9)
	VZEROUPPER
	RET

#define SLIDEZ3(a, l) \
	MOVQ l(R9), DI \
	LEAQ (BX)(DI*8), DI \
	VMOVUPD (DI), Z12 \
	VMOVUPD 64(DI), Z13 \
	VMOVUPD 128(DI), Z14 \
	ROWZ3(a, Z0, Z1, Z2) \
	ROWZ3(a+8, Z3, Z4, Z5) \
	ROWZ3(a+16, Z6, Z7, Z8) \
	ROWZ3(a+24, Z9, Z10, Z11)

#define GATHERZ3 \
	MOVQ (R9), SI \
	VMOVUPD (DI), Z12 \
	VMOVUPD 64(DI), Z13 \
	VMOVUPD 128(DI), Z14 \
	VBROADCASTSD (R10)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z0 \
	VFMADD231PD Z13, Z15, Z1 \
	VFMADD231PD Z14, Z15, Z2 \
	VBROADCASTSD (R11)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z3 \
	VFMADD231PD Z13, Z15, Z4 \
	VFMADD231PD Z14, Z15, Z5 \
	VBROADCASTSD (R12)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z6 \
	VFMADD231PD Z13, Z15, Z7 \
	VFMADD231PD Z14, Z15, Z8 \
	VBROADCASTSD (R13)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z9 \
	VFMADD231PD Z13, Z15, Z10 \
	VFMADD231PD Z14, Z15, Z11

// func slideWide3(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·slideWide3(SB), NOSPLIT, $0-49
	SLIDING
	CLEARZ
	SUBQ $2, AX
	JLT  rest

two:
	SLIDEZ3(0, 0)
	SLIDEZ3(32, 8)
	ADDQ $64, SI
	ADDQ $16, R9
	SUBQ $2, AX
	JGE  two

rest:
	ADDQ $2, AX
	JZ   done
	SLIDEZ3(0, 0)

done:
	CMPB add+48(FP), $0
	JNE  add
	PUTZ3(Z0, Z1, Z2)
	PUTZ3(Z3, Z4, Z5)
	PUTZ3(Z6, Z7, Z8)
	PUTZ3(Z9, Z10, Z11)
	VZEROUPPER
	RET

add:
	ADDZ3(Z0, Z1, Z2)
	ADDZ3(Z3, Z4, Z5)
	ADDZ3(Z6, Z7, Z8)
	ADDZ3(Z9, Z10, Z11)
	VZEROUPPER
	RET

// func gatherWide3(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)
TEXT ·gatherWide3(SB), NOSPLIT, $0-57
	GATHERING
	CLEARZ

one:
	GATHERZ3
	ADDQ $192, DI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+56(FP), $0
	JNE  add
	PUTZ3(Z0, Z1, Z2)
	PUTZ3(Z3, Z4, Z5)
	PUTZ3(Z6, Z7, Z8)
	PUTZ3(Z9, Z10, Z11)
	VZEROUPPER
	RET

add:
	ADDZ3(Z0, Z1, Z2)
	ADDZ3(Z3, Z4, Z5)
	ADDZ3(Z6, Z7, Z8)
	ADDZ3(Z9, Z10, Z11)
	VZEROUPPER
	RET

#define SLIDEZ2(a, l) \
	MOVQ l(R9), DI \
	LEAQ (BX)(DI*8), DI \
	VMOVUPD (DI), Z12 \
	VMOVUPD 64(DI), Z13 \
	ROWZ2(a, Z0, Z1) \
	ROWZ2(a+8, Z3, Z4) \
	ROWZ2(a+16, Z6, Z7) \
	ROWZ2(a+24, Z9, Z10)

#define GATHERZ2 \
	MOVQ (R9), SI \
	VMOVUPD (DI), Z12 \
	VMOVUPD 64(DI), Z13 \
	VBROADCASTSD (R10)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z0 \
	VFMADD231PD Z13, Z15, Z1 \
	VBROADCASTSD (R11)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z3 \
	VFMADD231PD Z13, Z15, Z4 \
	VBROADCASTSD (R12)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z6 \
	VFMADD231PD Z13, Z15, Z7 \
	VBROADCASTSD (R13)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z9 \
	VFMADD231PD Z13, Z15, Z10

// func slideWide2(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·slideWide2(SB), NOSPLIT, $0-49
	SLIDING
	CLEARZ

one:
	SLIDEZ2(0, 0)
	ADDQ $32, SI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+48(FP), $0
	JNE  add
	PUTZ2(Z0, Z1)
	PUTZ2(Z3, Z4)
	PUTZ2(Z6, Z7)
	PUTZ2(Z9, Z10)
	VZEROUPPER
	RET

add:
	ADDZ2(Z0, Z1)
	ADDZ2(Z3, Z4)
	ADDZ2(Z6, Z7)
	ADDZ2(Z9, Z10)
	VZEROUPPER
	RET

// func gatherWide2(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)
TEXT ·gatherWide2(SB), NOSPLIT, $0-57
	GATHERING
	CLEARZ

one:
	GATHERZ2
	ADDQ $192, DI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+56(FP), $0
	JNE  add
	PUTZ2(Z0, Z1)
	PUTZ2(Z3, Z4)
	PUTZ2(Z6, Z7)
	PUTZ2(Z9, Z10)
	VZEROUPPER
	RET

add:
	ADDZ2(Z0, Z1)
	ADDZ2(Z3, Z4)
	ADDZ2(Z6, Z7)
	ADDZ2(Z9, Z10)
	VZEROUPPER
	RET

#define SLIDEZ1(a, l) \
	MOVQ l(R9), DI \
	LEAQ (BX)(DI*8), DI \
	VMOVUPD (DI), Z12 \
	ROWZ1(a, Z0) \
	ROWZ1(a+8, Z3) \
	ROWZ1(a+16, Z6) \
	ROWZ1(a+24, Z9)

#define GATHERZ1 \
	MOVQ (R9), SI \
	VMOVUPD (DI), Z12 \
	VBROADCASTSD (R10)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z0 \
	VBROADCASTSD (R11)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z3 \
	VBROADCASTSD (R12)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z6 \
	VBROADCASTSD (R13)(SI*8), Z15 \
	VFMADD231PD Z12, Z15, Z9

// func slideWide1(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·slideWide1(SB), NOSPLIT, $0-49
	SLIDING
	CLEARZ

one:
	SLIDEZ1(0, 0)
	ADDQ $32, SI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+48(FP), $0
	JNE  add
	PUTZ1(Z0)
	PUTZ1(Z3)
	PUTZ1(Z6)
	PUTZ1(Z9)
	VZEROUPPER
	RET

add:
	ADDZ1(Z0)
	ADDZ1(Z3)
	ADDZ1(Z6)
	ADDZ1(Z9)
	VZEROUPPER
	RET

// func gatherWide1(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)
TEXT ·gatherWide1(SB), NOSPLIT, $0-57
	GATHERING
	CLEARZ

one:
	GATHERZ1
	ADDQ $192, DI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+56(FP), $0
	JNE  add
	PUTZ1(Z0)
	PUTZ1(Z3)
	PUTZ1(Z6)
	PUTZ1(Z9)
	VZEROUPPER
	RET

add:
	ADDZ1(Z0)
	ADDZ1(Z3)
	ADDZ1(Z6)
	ADDZ1(Z9)
	VZEROUPPER
	RET

// func line(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·line(SB), NOSPLIT, $0-49
	SLIDING
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

one:
	MOVQ (R9), DI
	LEAQ (BX)(DI*8), DI
	VBROADCASTSD (SI), Y15
	VFMADD231PD (DI), Y15, Y0
	VFMADD231PD 32(DI), Y15, Y1
	VFMADD231PD 64(DI), Y15, Y2
	VFMADD231PD 96(DI), Y15, Y3
	ADDQ $32, SI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+48(FP), $0
	JEQ  put
	VADDPD (DX), Y0, Y0
	VADDPD 32(DX), Y1, Y1
	VADDPD 64(DX), Y2, Y2
	VADDPD 96(DX), Y3, Y3

put:
	VMOVUPD Y0, (DX)
	VMOVUPD Y1, 32(DX)
	VMOVUPD Y2, 64(DX)
	VMOVUPD Y3, 96(DX)
	VZEROUPPER
	RET

// func lineWide(k int, a, x *float64, at *int, c *float64, ldc int, add bool)
TEXT ·lineWide(SB), NOSPLIT, $0-49
	SLIDING
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3

one:
	MOVQ (R9), DI
	LEAQ (BX)(DI*8), DI
	VBROADCASTSD (SI), Z15
	VFMADD231PD (DI), Z15, Z0
	VFMADD231PD 64(DI), Z15, Z1
	VFMADD231PD 128(DI), Z15, Z2
	VFMADD231PD 192(DI), Z15, Z3
	ADDQ $32, SI
	ADDQ $8, R9
	DECQ AX
	JNZ  one
	CMPB add+48(FP), $0
	JEQ  put
	VADDPD (DX), Z0, Z0
	VADDPD 64(DX), Z1, Z1
	VADDPD 128(DX), Z2, Z2
	VADDPD 192(DX), Z3, Z3

put:
	VMOVUPD Z0, (DX)
	VMOVUPD Z1, 64(DX)
	VMOVUPD Z2, 128(DX)
	VMOVUPD Z3, 192(DX)
	VZEROUPPER
	RET

// func spread(panels int, from, to *float64, step int)
TEXT ·spread(SB), NOSPLIT, $0-32
	MOVQ panels+0(FP), AX
	MOVQ from+8(FP), SI
	MOVQ to+16(FP), DI
	MOVQ step+24(FP), R8
	SHLQ $3, R8

next:
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VMOVUPD 64(SI), Y2
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	ADDQ $96, SI
	ADDQ R8, DI
	DECQ AX
	JNZ  next
	VZEROUPPER
	RET

// func spreadWide(panels int, from, to *float64, step int)
TEXT ·spreadWide(SB), NOSPLIT, $0-32
	MOVQ panels+0(FP), AX
	MOVQ from+8(FP), SI
	MOVQ to+16(FP), DI
	MOVQ step+24(FP), R8
	SHLQ $3, R8

next:
	VMOVUPD (SI), Z0
	VMOVUPD 64(SI), Z1
	VMOVUPD 128(SI), Z2
	VMOVUPD Z0, (DI)
	VMOVUPD Z1, 64(DI)
	VMOVUPD Z2, 128(DI)
	ADDQ $192, SI
	ADDQ R8, DI
	DECQ AX
	JNZ  next
	VZEROUPPER
	RET
