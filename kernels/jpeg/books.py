"""The tables of Huffman codes of recoded JPEGs, by which masks are coded: sets for files of different densities.

They are part of the format and never change. ``python -m buildtools.books`` trained them on photos. A set has tables
for heads and for rows 0 to 7 of masks; the tables of a file are a set of luma and, after it, one of chroma. Codes are
canonical: in the order of their lengths, those of one length in the order of their symbols, the first one all zeros.
"""

from __future__ import annotations

import base64
import lzma
from functools import cache
from typing import Any, Final

import numpy as np

SETS: Final = 12  # of tables for luma, and as many for chroma
BOOKS: Final = 18  # tables of a file
BOOK_BITS: Final = 10  # of the longest code
#: Symbols of the tables of heads: rows << 4 | bits of the DC difference.
HEADS: Final = tuple(rows << 4 | size for rows in range(9) for size in range(12))


def packed(lengths: Any) -> list[str]:
    """Return lengths as lines of text."""
    found = lzma.compress(lengths.tobytes(), lzma.FORMAT_ALONE, preset=lzma.PRESET_EXTREME)
    text = base64.b85encode(found).decode()
    return [text[k : k + 114] for k in range(0, len(text), 114)]


@cache
def lengths() -> Any:
    """Return the lengths of codes, (SETS, 2, BOOKS / 2, 256) uint8; 0 for symbols that do not occur."""
    found = np.frombuffer(lzma.decompress(base64.b85decode("".join(_TEXT))), np.uint8)
    return found.reshape(SETS, 2, BOOKS // 2, 256)


@cache
def codes(luma: int, chroma: int) -> Any:
    """Return the codes of a set for luma and one for chroma, (BOOKS, 256) int64: code << 4 | length."""
    chosen = np.concatenate([lengths()[luma, 0], lengths()[chroma, 1]])
    found = np.zeros(chosen.shape, np.int64)
    for book, sizes in zip(found, chosen, strict=True):
        code = 0
        for size in range(1, BOOK_BITS + 1):
            for symbol in np.flatnonzero(sizes == size):
                book[symbol] = code << 4 | size
                code += 1
            code <<= 1
    return found


@cache
def books() -> Any:
    """Return look-up tables by the next BOOK_BITS bits, (SETS, BOOKS, 1 << BOOK_BITS) uint16: symbol << 8 | length."""
    order = np.argsort(np.where(lengths() == 0, 255, lengths()), axis=-1, kind="stable")
    found = np.zeros((SETS * BOOKS, 1 << BOOK_BITS), np.uint16)
    for out, symbols, sizes in zip(found, order.reshape(-1, 256), lengths().reshape(-1, 256), strict=True):
        sizes = sizes[symbols].astype(np.int64)
        repeats = np.where(sizes, 1 << (BOOK_BITS - sizes), 0)
        out[:] = np.repeat(symbols << 8 | sizes, repeats)
    return found


_TEXT: Final = (
    "T>t<81poj4|NsC0{{R61<PUEp-bi~)I42o}p0LWW8(Ab9hf|v}Q0rH(;JyF7czR)4F)#uBr^c;ofQJ8_i2Z<evq)$0^wIthJ!_T#TUFBYX*K%szFrU"
    "E?1Zs-38_Rfm{a1{cXl*8K2Kbr0Z$$I3K)S(E6xKvTR=Hqk6ZG!Q8I;>&2CE81RIn42w&TMxqXl;kbMp*$sZ*b^Enm7O^%6CV}J|rVGlMY-tX?D(XN"
    "F?<#Diz^QSbw75Qf6?#8hT=0)Kb3kldtGY|M8tlnWrk*?iAXu;KA>>(d2te%~RAZ*uJvMOpnx3FQVPhqUq6HobNDGjq_QM0hF)!T1Mz-D{S2)R5o@p"
    "B-AkY+>+tCwRq?Xnjs2=J{|<`-$UcmTG*7+Kgc6Ix+>dDK7{s5KJt9=hp-ZZjlRecoWat+}0L>+?(d+MI*jft7W6TSY1VTp)()d3qf?-F5I%lV%J0E"
    "_)U`Af`c|S^{PC+J!BYOE!1Q2dz_wgJS?e2Qq?lnCjhOA3>lm_aT>tRY;MS^s%;kk?9}jESQ6%srH@jaG)CB!J+;<1}sO}xU%vN-}(1|V~$rUxEh{_"
    "S1FSE;rCOUqegBS{cWbq>zHNyns}8N4^yT+Al~lhXnN{o!Z>tJw3Gw8|0Q{^MBlg$R^YKV5*RDV^Mq10rBkq$xW5xx!d-ecwO|i6&%5=JNS~;A6UH>"
    "Qr!SG`aPCI3-|D$S{oqz|r32kp9uoz4d|Lr2->;j>#avAn-G@pPI#O-FZLlV#R%GOpNpF0)_giIUz*wK=@CuUb{x-r<Wk-{aL~fP4>xsY;*5etx;7?"
    "w=^F8S7(czm4P(v%5UhVWP(jnx^HG<#?zx$9NfH#aa$Mv=RNq2>zbUtwKjb9pW=N{=b@AaS`kn8u?CZhI7yf1>{*`#zxbjeHSW2Kb;M`XT(g2NRqHn"
    "Av9`k2x*q?1UG919iN+RoET-&ywpj?-){gWCVxg-j@Dqw^*^dQFKmIe(iCOEKUyC6&TN?<=>*fqQ-LmHG^n{{(6^iDz<>k$y{8=V?3YnY91dpu%;?s"
    "<J%EJw6I_94!|uc{sCp!*;)lt2c1^3PG8$q(SBb$an3tXl!3`r7DkTNqOSK)tTc~r{D!cBy~U;JR8nfzl(c-&_XXeTn@5_G5@GFnImU6{%Rlt6STpt"
    "xg6=WxA34^nYz6be4b#d-Hw`b@NE0FtWX%r)G-bFD%tpIUhIr3Q81n=>xb^{mgTw?ffMETWm)dvuxgX3!SVgBwIOfMsWe?qeEXeOX?XYgE){FLG>$*"
    "n5+?@fW}X`t56RJBZJ2$WU=3}(1MKA4KQ}z4=+88+;niP`6#}1AgMaT5KR%VP&WvM4Fw*(;#Z0AH&%4Z`tU;!9rmj&VODvg=#QebBD|QYhK6EZsk9y"
    "vJIzb@I$Nl3~c7SsV--&y-cFiyqj3^GnXa#T|TFc}CpYC&ki3EpC>ORCIzCimh$J6hA3c}2i1!F^dZ3zWtB0G{}W4&E=XkPfEm#gezpKzf`5)g}Dic"
    "D;*Zc^wh&lJ1L7c=5zdDoJ5vm24qrhy@lCdkEf>?LGAy^|!r)W>;cL(xaL*pAP}>T|QyU2zb=L8v6*e66gdAafow^9+R*&4}M=Y41`9$wL;UZ%X^66"
    "R4^Ji{a=Sy-P^=e*m{?F>=|Zvm&gL0NI>mK~#J4RB*fY`p)!@5kS97N+6-JB@ci1N_fvAi7_oi*U+)CBX99jnp+R~FN`a~Vw?GCiT9FOj_y)Qkp|yX"
    "&&#CY>$}T;hx#B6i<_7gVo65ug==s==|;89QE3B}^7sJ12~1t`5>H7{mbse+cJOt{C!ZQCzPoTKn?9Z{&zN5Mu?4T=F46w3sORvpr5UI!B#H$+7|LL"
    "^Cy#UJ<|zA&JK`XTfH{Q6mFi%yXIhqcWFTfr6ohIX`yDGyCt8g_%sXxyjmJ^2V>lSES&w8pA*O&<?kYfPSo^ho$ODAuO>wVlbm6~kW6o7DZxip|5~S"
    "{+yyUJc3hEaOv?<-G4FV{mAC$r&vhlJ67fGSI^gkYfb2YPryuxa#lgY^OW5*2qxDURf6S$__sRW-Ionza8=|*%v)f`Oz<&Xp+b!{Jw6I*ygO7KLs=e"
    "q(3Vh~%6r0qm}H$nZ4BF}8)2_mx?MiR(+f5{EHdcbf|0`_Mbf3r#^izBw=^2@_wbI&;?$Ijp>ban-My_!SyO^c~d+f%7;;OSL=-diRDy2Z1Oosa2+F"
    "9bFiVN)Y1<HrUmx;YVF+g2TzPIhUB8^K>t?eylMn{Dgg8p!+pp~)srw1bA_@e6+54t#D?<mf%6ASM$J+aVJ5a-zr8Z5;5@R@C*P=ke$gvk`Y<IxS{$"
    "w?K>1R|E-8x$Xd1;@~thx*<dT394rP_jl#+?JOk>FSjXbN;%2E)9&KUJ|AL-Dm@qw5MEmoS42LpgdCQjc(*gXe=`{aJQ0J_tq%b%D1hWyfG`Nwv~Cj"
    "$`@H|O+0}EZ=4HYtG?6bhLHigyy<Z~5nJQl0dnWBZCvX$nT2<tK*J}?lN8pm~<)|ysXhqvcjuRii4a+Bcd1JA8GVY?eBwr4vxCdR(2XC$NN06Uf`|i"
    "3&WKfK4T%Kc+l{@;EQ({O7ckg|6S2$lk_evx@h~`%C!NPEcIzz2P*Cn1-%HAxZO7X3(XF7@%v?<77Tr_{sC-q)OivJI*!%ly>4^xS%o!3qO0im+9kN"
    "dSmi2-r5{QSreTh}2)ORVGJ*O*}}2=;INtt=+L0oF6iA%3pgBectYs`ZOcC7w)8HrowNF6vv*L}Cfp&y9>nWRBe%jFXReevn_$uuj3$a-4Wl=9--Ns"
    "1Uc_`=ibWT|+8=TKANk%|uFK)TWqkW6QP-0GICa=^|$x{zbP#>SHKbuvdaWgdg)zKU>Z5-+AJOv+3rgm&S~F8|!%8_4-Lfr2`FD+%kK{<8-iOR!r;i"
    ";`^D3*Xu&Em|to?U5EII&qa{CGy1a2XxRys38~P$W`&po7-A|VTHTCba&|z5$KdY|;HcXvvNscb%?Kb%{V6BQtU!O!u=~jIN4Dm8f>~;ROWV?TJR^V"
    "Po8?iO3zsmJtm^9KtaN^yU^$M6a5WBHPRypE%+-lLKF2<Bk1u*bq2E+__k{}9C+ZeJdN2CGt{NYgO=bCdZgRo`^oWJ@bd+GoO>J4=FQ-5@se|OAo~o"
    "cF7rT>}N>5#)h^DvfuB<u9WT0KT*6A9EZ8Plm$wa9E@0fuLf`FFaA&OOY*tXe<Co_~4a<iD+8fSwmII>bUB&Uv6<EP)Jy>;iIMcF*O_!MscAH5+j3l"
    "^+kk7U_nqaJ^l;^8|r&_NkDj$X#0^rq<=<we_6j7ax07z6EoNpS>M#yp~EnkK`6YT3;m)Bnd-2E+i{tIKg64}01W?=|h#g)$OodT^*K9dxGt16u!=%"
    "Cw=}!@$fw^yUKcjv_rg_E|T!1wisVHFhfhAzcAY9k}~-UxBcCTOvK`>Ac}3l?28WHGn=1sjQs=a>rIPx5~X0Po3LZgAhdy;&gyL!9rDS*P_0-py%yN"
    "JsV8bBv@-#$4@&|A%S0#SE`uN#POQUcKZWnjtecKKNSi!wy=Ei77qz=%oTK;X4to}AWbvG5P!2YVv<_N<Qr3}P4r8mR1|xp*$&H5!0F?Tdp`4K=4>w"
    "x4Gdjk=2boj<BfyQWDfsP0nR65*<{)@zBA<k+hDOG_*Zw6WYCyXu9IInFt#+0k3Z0CQ0CKC8~RCU44pbyP{%ajKWstq$oCzPqc&SvP8-A6(LM=}pk!"
    "d3*KX1Axw_nBh34w!FbUemW-aSpu&we(fDZ+Zv;;O~wZGjdn6>O6Q+KSYEt*u4PY?cD2SYBZp+y9VmVXR00xGecQM$!<TKYJE$@ZiLt@ZG&v_1Co=`"
    "U2DufrW;ix3pmitn|psG2VpP<e`G9Pv!igC*AFK_p{#VSy$eN;+HWL$A;e$!p^)Ri1|aEXJvs+^C@4K@_puOzH3Wkn#Mfc)S5S#aC8sS$SysNnud&H"
    "f_=)`1uysUU$X@5_o`O=@(Zv5l!`@gR6`JEAslUOz(d5mc@tTO_8mrD1xodS2F6t!(G%)!FfGEI$wY3E`w`bV~GggL&Dj4@J~(sL@u>rVdMQ$=1(9w"
    "vUr5CXhO>_UMP6qer{~9aH@t!2cKS+kLe7AsX1T#|AY!+TpHgo7&xyBz|RE}xz-JumAicN2x{SIoqH;(7o3KLHL<Ra9^5OLce4C;o}h1FkkZ&7oaL}"
    "}v!d|}XG)2-4AQT5bz|E7EF!#{A{9JfQt#QTPzlEdC!POOE2cJxaZ#f{3gI-gm|hwk)csI7Go}|`D4;Jo|7L7}*N@%&Zu1f@e4Jt?w4}|82mkg;{+J"
    "{HjZm8fOeuSOK30Ii(;$Rg;@PM{4`MGiF3$Z!=>*9^>`lw|b#lYccCdcR%$aTjBP~k;ITSinrn35n?|#17aPICApG@gtB60DxQlGb)`0?(#do_p|<r"
    "kasW;k?uav7<r=s#OR;0!)4d6WoRk}_E5Uih!LHzYwH8R0Oph9jDYO;;{a#rV)YZ%VZ7-FM%{RCU&l^vJ&3g`W|4cQP|PCc{ySW9H9~!2!?Wt9dy_<"
    "Qpo-pkaen2UHL+|4QgPb3g5CzX|}^F8fAIig!C~;9B>#Dxky^A_~EnE^%ml{_J~cZnRUL=wKTBx~2aGTqK_X`W9EQ)va61nNC+MLg<2}3?CIyY-=hP"
    "ec|JcuFzdY==<bZemutrqWXN|6{7j<6(M#U;CjJy^=&^KD`_~G_5|sGFTH{sAq=WU=|4c51selMYbLuIey1+3cPZh)*>Gu{cv;?oOV+-S%!{ZWJq#`"
    "F&POxa%v-J8@6<}V))#N~s<zieGs<w({J_&p)rGmjEpS)zgRi^$6Rvd+pj7FP1oKBuXCabWul08qb>K8Iw45TBc`N^BH8IKQ^T1nG$jPeo5zUQan7f"
    "X{BgL9Mkrt9&P@$x!w}+z#wzHtzi(M!ANJg;jPWU=HjM_trBm{;rgtUGOS-td^fxi)_cPHkfh#$%63KmbR_e=<4?489vga|lBmGeSiQ6XF%U?YoU3t"
    "ZA1)XB58oY0VXaUjQoZ8|TuE(SKi1a2JdK^b69VvIPtitmNUb`$2dJY>FxqXxQ6K~o07;x@EN!WlPk<#sMgW@*GSScz=%vCv_}p~~4)#hm@0g9i"
)  # fmt: skip
