"""The usual Huffman tables, K.3 to K.6 of T.81, which most files have."""

import base64
from typing import Final

#: Their segments in the order of files: DC and AC of luma, then of chroma. Recoded files are compressed with them.
USUAL_TABLES: Final = base64.b85decode(
    "|HJ?v000360RaI40RaF200000000330|W&I2M7rY3;)CbwGaRT0Rsa91Oo*H1Oxy80et}i0{{dO1ri}KK?W01VFw~{6f%L4p$H>FvB4Em(eNZQVse5"
    "B3Kka_85$)fCnzZ@G&MFiI5|2)L`6nNNJ&alR8>}2SXo+QWMyV&XlZJ5bai%jczJq*goTEOh>41lla!T~mzbHFqNAjxrl+W>s<N}RwYImoxw^u`#Kp"
    "$P$jQpm)6~`0*Vx(G;o{@u<>u$;>FV+F^Yr!h_xSnx|HJ?v0RRI50RaI40RaI400000000330|W&I2M7rY3;)CbwGjXU0RjXB0|W;J1Oxy90(Srb0s"
    "|2Q1tBp85<yW1VQ~{8GJyybLXn}d!3iTXQt%aGa?uJFBsAeA@fR2w8YU+wDJnHKH#j*uLqtVJM@UIZQ&d$}S6EqEV`OD!XJ~0^b98lfcX)Yvf`f#Gh"
    "KGoWijtF*m6n&7nVO=bq@|{(sHv*5v$VCgx45~w!o$SH#>dFX%F@%+)z;V8+1ldc<mKk)=;`Y6^Yr!h_xSnx"
)  # fmt: skip
