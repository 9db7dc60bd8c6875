"""The tables of Huffman codes of recoded JPEGs, by which masks are coded: sets for files of different densities.

They are part of the format and never change. ``python -m buildtools.books`` trained them on photos. A set has tables
for heads and for rows 0 to 7 of masks, of luma and then of chroma. Codes are canonical: in the order of their lengths,
those of one length in the order of their symbols, the first one all zeros.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from typing import Any, Final

import numpy as np

SETS: Final = 6
BOOKS: Final = 18  # tables of a set
BOOK_BITS: Final = 10  # of the longest code
#: Symbols of the tables of heads: rows << 4 | bits of the DC difference.
HEADS: Final = tuple(rows << 4 | size for rows in range(9) for size in range(12))


def packed(lengths: Any) -> list[str]:
    """Return (SETS, BOOKS, 256) uint8 as lines of text."""
    text = base64.b85encode(zlib.compress(lengths.tobytes(), 9)).decode()
    return [text[k : k + 112] for k in range(0, len(text), 112)]


@cache
def lengths() -> Any:
    """Return the lengths of codes, (SETS, BOOKS, 256) uint8; 0 for symbols that do not occur."""
    return np.frombuffer(zlib.decompress(base64.b85decode("".join(_TEXT))), np.uint8).reshape(SETS, BOOKS, 256)


@cache
def codes() -> Any:
    """Return the codes, (SETS, BOOKS, 256) int64: code << 4 | length."""
    found = np.zeros(lengths().shape, np.int64)
    for book, sizes in zip(found.reshape(-1, 256), lengths().reshape(-1, 256), strict=True):
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
    "c-rNijbf`R41iZ5B;oxZ_>k};A{3qL+-d3U>7^DmfFXPd%mNa#*Yp(<Iv2iJ^AM6lE_v7F0c`mqABS{`bUx>*y!T8YmEX%}ef{4~=4<(~;a~iMFB"
    "d-fi^9u=PYj>-%j=8NCpLMPK1VN}9G{i<7tcR?1*r`f2hI>8kVEU)qbGLpldRt+Zt~7QPdqtJ{#xRT<;farLXQ>sU3gnPCo}53F~j6~c=P>VO>7s"
    "H-zNE?Y8R2;{qg(1oa|zx|J$IGFlZ(h<@R_`e)`|#$A`7(5D;1A54u=hRMo??_WtkNAGH5F8M7RQXTZteM4rNkCI1(yCCZpTcokg!WBSh(fM2Y&V"
    "T86pa10Vd=mi+0jPiSyya*bOX(eD0K9~(5@A#a8{AmSxS$qSows+iW-e^A5&es0XA5h7MTEdhq_DoLS$^Uj*!VAJ%Y>~0OlV3E+^GSQ<s{L}+J_="
    "UeBaHoyZ0efmKP<V$EJ5p8vCEU)!_{NT?=C+)ME!~G7xl+c`$s+hE3)5R!OJ4^Hy89iirx?UJPdx}rik+c!JGT!KW4yR*Z&rR0Yp~h54Qsp<<D{h"
    "$1%Q@p9d45v-N{F*H37FCv6WD?^WdI>b@N}?cdzcZ2X_<pSumrMcN-j`;)eXOav(Pd)E5kQWtrEs1+oX8sTnx&+H$|+Zx^dp0D+vss5AMZe{P(7n"
    "FRkZZHF(!gFxtIm&y)Br3<js?Ai&yNHA~yl2aQ?zDeguz7_0P_Tkf?I5vfKy4q={Faw&?Fu`wFKEhN{LQam_!|UgJTiEPCe8amyB4wWukC*KkN;N"
    "r*P_e|(NuDAs)zTse~ev(|LNR6@~>J=(c8<f_OEbHrcaP}H~v1X3FcoI=9&EmCigJG{uj^{)Lm-+kE)1=_2x~r93Mzw_P6nOp<5kb>ffpWQ1W-l7"
    "gT<aD-c@!Tm0YgAMtr%v1e#tpZqqz`33uDfko|~_}Ih8>A%8%)aJp#H21B?zcBtgo#wOuxG~T^RKF2=+RSS|CBZ}7Khfd+q4K-TK0eO&5d&axZ26"
    "BTdR-E}HRC^f`)K7iN_Si|fCfA$T1=eJPw^D1{iE{TW&c31d7#AqEQ$Mo`ol1MzqN;4WfyUH*@->mCdc9S_#bD(;}2*U30U|~jQ;^evq)yZdsh7U"
    "JYB`#uXZ00SP5W*6#wKB|I)aRI{t~9`%NwZhKu)izx><yFO#?zCi$<%Kk<w2|MCbR@gEicg4F(__@AG4fBgmfU*n%J#eXp+Kd`txi1F>^PyS!0{$"
    "GmmKAil&?B5@XEjl`fVIXvXPzMmBa~V0hfI-82!l<42AaY+Jez$|Tn-xf(|M<iFhr0ZSYQD4eul+Ip6XTzk<o~Me9q!mKXXAhP#rDfj@t^GXD&zU"
    "b_&+NClgGVU?$6*qGWL<GxR3Myn8j%PCr}K4l6Vh|{~0_0KOLXJ_sb7r09cX$X!aWa<oEGC{LKl@)Byhz@*`P_#vb^-{I8n8-2TAj_SXPF&$<wxk"
    "}Jo9jqcZ7gof^B=<Fu;2opDX+T=AnD6JqX>%$xtzN67VHd;uT2LY^k#<)U^_^$XL&=?@`f5r7*s4R$6KH4a#woc?itjE0mZp4Qu{SF54)FXaG2jj"
    "2#AYU5!@3`<MS^FXDz8J~r{9kMU4D)^&3S5bYp~MAT_1MdUG2tUS^+5xE)Y@C4@@K;@XVVkudLZ^s;Xfk3a1RNEMa+J|mIvhgC|+hXJ)*(=^MJ46"
    "L|x)Z^}3foOlXw<$QmGU+xFkb1J(EUtbLExKThmzx;T7H*B^or{*(Bh$ScEOS^qek5AZMXua^%EiGS%Du*82*>maWK-L^Lk^8am;^?$Pd%f%G{80"
    "P_A-=04p9_*p(w^4n-L3UXUUN3&gtHa+l{@*nG$2IHUt=+EoQv3re?~(9kSM#6ftgGxPac}Wc9+bbhm;bmY{AXm3oQ)6Si|fby5A&s9p^5&pV4}Z"
    "+q3PD|&%bm0Ym~)x?65cIKVZ-i==3-GJ-8a*-kyJ%$p3>%(}`TD3R#_@Dl3K_y!Zhi{uA=MReo6ns4G--eKQU^LUw~(H30E1w7)Czhe@D{uTH?Yz"
    "ME@9k9!laD@}O&1{#t7r~_0sK!Di))d-X>0C8~67-aW6wEX5QABD!lcvhaP&!4L<+x1U1@j!JABp$@uJW_4XNPKi$GR8Ikk(j$2KV%~!!dvVg(s&"
    "=Iwn*eUnfLVe|Ec4Dga?^{Jv8D!v+_0H>G|K<^UwGZ4C0aU^@H7qoacGj{>hxDjen`<`$zZ>b=FT|!%s%>MVU9j<hUI?4w)ap0C$$_%bZX5eaYOT"
    "FMr+-2e$H0;)8g{w_J0+QT?7R?+1KlF2Ah(QQlM5e^KHevL3FHf7t%ix&NL&b<}<|;A=Da;b8sye*a{PviFbpKS|@?Z0QHgS^kRumEo?wKd$7*%_"
    "k4}Ufn<I^JC|FNBHVde!9Cp%JOHe1628i184phKCS0;UtHRU*7&fU{O$Ge!2R{gv+wW6F*`ovzq{*$(HXulP>A~=g(o7uQR*U@LR9L(*ZU)F%)=v"
    "mjCc3{e7<qj{GMOmB>O*((mGPdy)ZPPtM<j<=p$zz%_EgR@iJ!a?i)gb?ISqVBTfRWuI?YlPvsBSFTp;(#5)&*ChrH-@}K0+s^Xp3d=78sHD6ZH="
    "lJJ3FWEXC`uF*dQT~(nKV0n}uIz`Nf6I6H5KZ_H4eSv<7+*vu`4dgA?@Yb^d$SJ^cX$X6@<;LL+2gPFACNOPu74Bxqdw2$4mJAujQo7y`Rn;pe%p"
    "UScJ+Ta^?}y@57v+nYV`S5-}BS`lK5i#zB;kV`akb~hol@N4FDMZ0ju7pByWt5UGpRPCfmd0@^?-DS@;KJ{u2YiVoDeQlRG5G1Jic=WaLW?%s2C|"
    "D1YWZsN+3l1SW6Y7=S&eWkTF=Aa3J<&vtOUDF1c-Q}NG`0OLN0nB`CL&=vp5{xEHS$LIWGI|qET(b(Dg`w{-bJmx<?o>yCv*ZqU6kz}pA#r`?Bf6"
    "v+VTQh!RPL`*}KR4q)c5uENzx4PziD%nxK3g9&n}3_x<MEvT%=pock3e<aFwe(j@;FWB&rjy3z4BXrL2M`GpYt1{qw=>r$mx48KQ{9tcahIc?tjR"
    "y^8Jta&xpT0<CFFM)bh8yhO6>0;3+Mi`rh$AKRa^$%xmqb<6L-C>i=XC*Qn#2sysD(s_>s4ALTv2V(9S0e7wEC-tkfSk^I=y@AL8!_N=TY+5Rd1N"
    "f}sP517}%#kfG1@+~i>@_pt)vHt4$Q?9>ueI*yZ_Pz4s`d{O>^7GWxZz!+SC%#DDF$${v6h^LjtsmVhJ=RmALedsuHDXm?#JRpW=BxUPb1Nj5R@q"
    "Vc-L^iryp49pUGsd?roO1~xh=1Y^}So)I`DsO{9CyGIg8@Ys(Fv%9K?Ek*oFti?GS5zlmevbzWooO`ui7aoOAYnWxp6z{;Zl0^^UjkL(llpsC@7D"
    "c<?w6_)=RQzDVZ&%0JTjcVFqjq7OHE&o_K%)hm3M7twZ{_%?6C4%hA-AI7gr>=ObQeKwOHD9Mc~Hx>Wj`gaj(KL=OG*Y8_@NY6juOZk<f<G_zFlJ"
    "Cgzr}FE}Ln5D}?o&M&bzI~?x-ByC8V{OvQF`mP!C8N8c~I6#{Dh0CR!!$^f8X;7^rnYrrjNVnX~G{R{sj{J&)g@@e-i*IAgJt*&1K;ncX`Ha{d6k"
    "7miuV{IxC*!FLI|(PV%$-VT@INpW;H+_#amV499pTJ~cmI%lG4<UL7EAWdG}({2b-?QGQ(8-8b@k`SVd(ey-#%9emOQ+^+mJ2iN%ui1LSb)Bcp(K"
    "h{V3!zj3uKkl2JIN|O%@pC|0)vxc>Z=2uA&*uPioBjd3F@!$",
)  # fmt: skip
