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
    text = base64.b85encode(lzma.compress(np.moveaxis(lengths, 0, -1).tobytes(), lzma.FORMAT_ALONE)).decode()
    return [text[k : k + 114] for k in range(0, len(text), 114)]


@cache
def lengths() -> Any:
    """Return the lengths of codes, (SETS, 2, BOOKS / 2, 256) uint8; 0 for symbols that do not occur."""
    found = np.frombuffer(lzma.decompress(base64.b85decode("".join(_TEXT))), np.uint8)
    return np.ascontiguousarray(np.moveaxis(found.reshape(2, BOOKS // 2, 256, SETS), -1, 0))


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
    "T>t=p0RR90|NsC0{{R62d3H`)4exRoJASIQ1e0HcwNC@HzevtpbL}CUZJjCL_VN*`PUv>F-UnZ4`t%MnNgLzC>@Mop{bhS7kILXnW{rOOL@>_<c~Vo"
    "bI{t7Sd4b!=6pAxIL*$=kLD-?~IeFlpkyJ9Ru$8<svSR7GbZ|?^XI3#@qUD3kk~`~n(a`WSf&iMIIwb)r11{N4kO{7SfRHk)8CU-2caR2AO$M=D@4p"
    "@JZd_M-{q(C$ZwW;2`vuU+aDGJ!7|j7n*VKg_l?1uWE9Q9fwntFR;QyGGDDYZbCA&&Ojh^^oNS?;OH#6}24U~?@;zjdY7Rbk2u&Qu6moQx1AyRK#4T"
    "1feT1ES*Z9826s+4`OSkba{*IxgY?D?agI4u<__BzwP?w={b_8?CrM%i&C|B|TwRwek(Z^C~x-H^Oh+9+OAzQ*k<UVC*Vd~x@@WvQ8VlghJEKh||ZD"
    "-Pu7DDA>+3vU@Q$Te)t)z5(&IwkEgTa~!M&l3IDkuE^+6T{>Os(9yuW;e|$QP>tG%EiLS{JW$~AfB1xN=uZ~u;CEB%ZCu%pr`#`!P|F5Zri7vygbfR"
    "5kxU_5TPDpu7>l=7m{vnynA2iQx|{>iaB1T0tnToQZ!oT!0eBpuh2tL!rLn?@GIJNu_IIkjQ!oVc4X#ix+H|quH<zm0OVc0rV9g5b4^=5eH@Bs_;yQ"
    "Ra(j_BjITB`Rbdorbi8W4&sEi2X#hk3^H?1nN!A+oUkapxF?6x~<%(tvdguBxieX}PU}<}WO&#DyKd$V^;k0_Mj$e;5g;`Lpki?lMplIv=MYNC8Ieu"
    "NCB&%}CnT~Z9%f6rM_4(;4CH=)@8=^_(F?JoT|5JHzR>Rq(P|iK*Sam7XaQm(u;tRJ8NRu_tr#7Nj{q3!RyRzeTQ?@_<c*YMTAbw|zD~^)CUAmg%i>"
    "Imb%+z#)r<2>{APiK@=lzE3XchH?jvW5?;YlB^3>x5VfivvL*XbaF*Y=m+3}Mii-MQKCq)keN{R~rOmJW+jGQXj~@KW(*_JSAvq}hR?5S#0>_7ZiGa"
    "@hpD^B~a#bP*ae&8jAkKn5uIh&d@X65ElJg*3z+b$Ch<+;(&i+@M`(rKGx3RJ2wAddIQ6ID!Bh-!}?$!o8mkPA~<9P-Me~2Z8Hm)4$);6b&=b*0Cxy"
    "f*_n~dt$+3gYkl^0|q{dW@3J1m=5bbG}s_8)FcVaSZPgGk2j$mnS*5FNmR?sIBcP+!PPtVdaQq@9EwPe(zu3pft6T9H|_jgM^}g3fA*`~$12yC&+iX"
    "DSObXh=x;Qh)q!l`IQIWyXbO5Lz<abW>v5{TGR0e6BF8ST71~ak>}LXfe|R}CjZ37r_rdV^*rZPv413OE`-3GhmSknc-_&jn<@e0}M6tG*>oDyrjA%"
    "G8I!e`E=d_gK5Xl^d7BFPnF5k!1cql>BiYkL(e{SR077Z$ZrlpKl3)S_-^KXS6DS;1)W>&x#x!vPBcNmB}hD6X3Qc*)s5E`5;B9Dzejnk+qZ&Q{gs="
    "TFs2k#Htv>d3h#YIGNRreU-`4X0DPr<KD-d?naFUO%2kmeSZIzAK>DH-Oe`?RatW3#l@cV!H35HH8dnF^Qo)=a2!$`F;ehX;9e?l`rwYRZl}%Y-*By"
    "8Q|>+GJRhq6QX)jd6ak$`s-XcGLVcA2Y%PD)-KErwgRi9QPU<!^4Y{I4yxY)F#d+g*D5YVI~33m2`o(r1w`tFl7Zy)Xlzh1-fD%gG6=P+`8dZ%9ldy"
    "$g{_*?(WsAEuXn~=cEool;HMQSCh(-LTjKaGYgCG?2TmnVC<2FAW;y7;H@g)OM)R9wIL};H@G$uQPI_~adkRVu1cZHaYQA?c#h6C1d4t71F)j`7Dd1"
    "?x=bP~Q61Ue%_2p4pjDobSE4~yqL-5lOR!lbaM)|+gx_A>LQ~3U#QgknetY|#dC<q|+k*U9zNVXBfbIVxr|ISieYMwV`XbvZJnF>eQ?4z{JtQ|C%)y"
    "!eS|&SymcU*N&dm5~w*wMJyNAQu1|uFQC4QhkrQ<lYdn~sVrf|`WC8;^X9lNww6vQSCh1;&2u-r-g>3+RvcLHl_s%T)8N(ht+NP6fZC==~@#{HQ(nN"
    "g20Q_)!IGjL<q$IF(&)HBgbc#K@=C+&7iRa-^^wpL@3VzAkIr+l#nKFHSP6hZ8zJ?qZ>;31q7&&}57m@R5XEed?Yzkz~$+@Wd!s*)KSW{*JsQ$bX&v"
    "2<3-*35cHru@(0f1pHJ<1jQir70A;f49ba^d6EDFQv3TjnKWl{_q54_=+!oFTPxm4l$gv8c)>p8cv(IqT_i<Bm8rRG;ZNFPJhsuOo1O0j@W*&m)STa"
    "58k{}`-1Fprt=)E?a$N>XrXeoz2{18r#>VJ#25RP*o@YRcFC1>!c1oB_LoU==v4f+Oq=hws*kbTj?CkqyJD)miqEakR>EHBL7RJd<yr7=wBj1)YCKS"
    "?k&J1ef?utJp~{%Z64KBHyiE-Qk^62rG6exXbIGwCE3Y|d9;{|IZEGOGONXEO2dGfBUM#zvvZ-bS(9`T@9u2K?=Q@|7rs>4QZf0#@ve&l}mkh|uTIM"
    "MpPwy?#P+Pc>9c`u9_=YB{<L5?01KaBz4@(28DV<kz-fOsLDgS#k&C1HS9Afwi<cvL-g~%bX-M<VMomm=IjJe$9u*Cd5a<rK|2&(<5xni#;z-T7ktp"
    "JW9DUB)s`IU10w302(fZl{>1e#i2Z#;b!q^v*ic85H~J?dV?T{s>z(LSA1c$XnYP-B2zAKgLhkgq%}UuqCPndbRCE0Wogw8~%#*Tt(Bkjo9av;!|3!"
    "e6~#q(cWMTUi8>{SZqw(C+Xq*mSaw^6G0qkYx;Ss}WgPr04tab|s)|pl3nWUhU2g9mRoadhsVfT3JD{ww$`0*oyu>emhOYY;gn?T%5#uF=!zH3@Szs"
    "xi_%C&K)&)U17o`fdfak4!qnInd5avISQMozJ_E#G4$)WIt)H-U2j1AX(5y;3l;9lRSHGEiJcE`yfr$K!+1y4QlMdmjdn1ss?;M>P?Ky^(1*h0X%wj"
    "f`a{+)m__?y5Rt;>+B06O8m8+vOvc6PVfbfiXl@Q(V}@2+YVHyB1UFdCbw_A7V^4Aw1_Th31g@adSn@|>PGwROxm?2G{APVC+5I~hNGD7~*I!@^&oO"
    "VvcdrTuQZ`VtbPu6fA-yDGs~i9?BLlqQ=UwWIYXBS@`{;ApzuCjHe@JZc>X^-PVqIBA7)rEXWLnTyMMPBbAN0J|#!XLWk8Rz?63&#%o5_~{y(02uj2"
    "i551p=q=rc{K+52COE+)K;j)!b$QtF>a<hq>}fw!LTaoOHX3p-NtFxx0q_4%<09az5voM)bua&Ne!zY@8KdQ7x@JG6=sx1oWkO3U~Q2iii@|4e(3Q*"
    "Y<&b?-d!qDAAU0Z#ecmO38L>sogs%00`EQPTK}OHJMu6EHGh-&oYSymWBusp_@Cs#0BzjLgX`QuqOJLseA#GDf09`cIjecjj2jA5&Tj)-MsOkXfiIn"
    "zu|gjSBTx6pOt>(87+isu{mXu|Ln2v5!B{p>u`iS`#g43QD8aCT|%u%a>Hq^|8A`y{gB15HW9m6e^Fn+dF6p~4VcAz#J47a^}ItbO5m5Zv=w7hi%3i"
    "8nu$;|j{rW<2_3nXS=Ku8{-(-7--RR$X@Hw`XA7@)={rBiPdD=-UL(TIdTu}K%j|6c$_2ax(y$;9$FYszB>RjVHe5XhDqq!D?prvDj>uK_Z-8_FbAF"
    "`aZE$(gYvLMXp>BN?@ks0X5>3sbhrEPBA^3^Ck#r%dBf+w{j;Gg)&GN4$U*TcvM_sw2s>-t9T45<(*;D@)@W|P&+$=hJTQz-#=uF9QBE3#EJ9wsy#L"
    "OXck$=J8qz->zU!qio;Y>I!Y>%EQ-R?vs^}{ah#<UC_?DkIr9A5q;x7^<;9@F|;Rd2w4fcWy}N`ht?dYrjNvy%7*E1HTmJp5;DM?75ty#PGhC(mgl1"
    "}A6*8KP|4A`EYm-OyVWqO5JS;dzh#!1s=BArc;Og+vtJdWIqSD1PT4o}l|j6v2eXLB{!%JosC}^BzGm)y2t>D-V+$O}MnY1k8j*^(RWz@TMBNeHa~5"
    "9N%xn7J(gy#+ceWRKM`-U;BS6zqeMs+p)fKLxN-^FiOH-pC6<XLoa>jdVrVQ<H{a#z!ckjz=utJxR9u*xyZ{JntWCF6D7mh$pPKTm3n~V&@dXQ<x6y"
    "Xtr(&!8LWo;o}&NhbG&uFT=|}RqwNSay!Hz^)oS~qG6t&g26&Lk{Xue^OSLqK2=71Fs<bnj0Vy*fTmW`piBImm+hHNusbVncCN!A1QWNqVEVWV|`-0"
    "F+tQ*_EJ8`Kx$|2a%7Y<0ll2NM0hI1G^i)$?jdZ;97`X!)j<Qu7_R*7f$Zn<9_-92?5NCIsTa4^!6%gaMVtp?dZn`V*BJ{V&QC1Xlf)a^(J+Oe)T-Z"
    "y8*E@2IfXG51A)z=KxV)11D>Zxrel?Go%+bC})f22`9ognfB`Y8ODC>#x3f@A$qSZUC%OL3vxKwX#6D@QL~sIWa<X2;O7Y@9r^E{Z}vnJ7+&?Q74TW"
    "vS0^PFmvoyD8$B2S8W^c^e*?xj5!Th$F)xk+)0_2f|Ccz1x@9tgr>aSRXB!yO$%=^Iz28x^5D-osfBKib4y5CTG!7gqsy|8QUf1)n0dgjMWXk*(BTO"
    ">lskg$VKQc7P1m2fx*7hA@mgaQ1K1vIuwS@H11b6piPubc~?iO>=$j7*Y=ZQ@{kplq3&Lsg>~lq7L-Uo^~$;BSJ<qro>>r9fkxW&4@;@`qQ-w|yH=#"
    "5sRu!Vi<#@&+Xl-;v%e3~OD5mAx3W$33sQRA8<mTK39L8OU8Adm<o3ZU+}@S;l?m=x-LjAC1u@N6egfgud7;9|LV!LattC6rrP?7^(fk=Q)gyI)Pz@"
    "rH@(R;BKIChix`mBLuw~W(;w${N1P?{4!Z+Y;4FG}J#zSsahdxA!uzsx)Z2uj@EQsOAO3OJSwT}6f?gZp-dSX?s10=%?a&9>QPU^C~=cmW3W|0Qay<"
    "S}T1+x?%vPUYxb!z~AZzZSPOtdPAr~`&Y=aU)(qj!+P^j<KMPCY5h)EwQoj3y2Q^9mYxDbz}01(|0?7R`}1qQLlR{*&=SWc7@6;yT;4q|v!CH0<FJR"
    "5}<zFPyt2gVdnN%o}c~<$D5D-Ce7WKmz1G>mQ$&fvbC%uMZ2AbUzThnu!SuSv&S){9OywoH-?QHQyi2`6#qN(N(S3h8xdy9ds)$AeY1$mMcS!DAh+E"
    "l}QCw>I?jYr|>ji=Bj11#7*`P3r}aKPQLctGHQVsc`?k>_g>g@t6jd4{(4Yyq>w2CdHfE!lqYvc9Al3v;QbhM8kRCv%+x*5ZEB``g#B;-wgOh*IQ{*"
    "l9oF9Wt?yj}MD#^uWH0tYC6P;#LOUb4F3xLn^VYR}J6b(PzfELu=QoP`To@3|Goo`|(ZiS#ByR&#OJRCZEs22QEQo>rE&KK@eX>6)#YEzeceF}#F*&"
    ">!_Rr=T7nrIv_UdQ=4FFOo%6PrQN>C}x3ZTu|wbr#DaeHHGcSR`fBTe}8IB%~<<y%AsR!ZCtl<^bF&e>+LbZ1rUxqakCNkD;QRxV8y=K+p-b2H}24W"
    "dRyAmCLm&w{(#RG(P1%C8Fv!-5C~rouK^B_rzEq?4GK5Bl2imp!P_%7~*BX7x4HKNPZab1oO#NH(qhZRSH^aF@y82{cj;=G-%BEs}nQ3UHdkjmVh?t"
    "`43voG)(g7U?%na*~lb-a_hjag)9#m>D#$fI#~Lpmb>_eV`fPhod>*wrrNkL?9Gbsr4u1YgiQmt6^pjv!2gFVRkU3XT(FvkEd5U)BGqp-Fj4f)~tsC"
    "%SRHm|5c^(!)v)4yZJx7FJ<2a5`Bk#e_}wy-Z&1eB<bRxdORx~v2I!tIiE2g8^{4%1xGCl{6tA@ByqX`dUyCeyj4+UvE*zbqH%{=yJw_>+v4wL7$sV"
    "LF)m!eA<Tv2L(zGqt!^P)aPH9IL+*zLL`r<vbKV`4)n{s8RAHs1rM?hb0lQH96XnH{m_!zhbTxqHjDTHx<sa}urA?_8y&PUHFQG+4IQW2dy>eDL+&p"
    "Z+u7jcczYh5LmQ|P@VM$SX_T4~9YR8_f*pIQ7{z&OuaRmHP@GM?e(AYhh{@7t0"
)  # fmt: skip
