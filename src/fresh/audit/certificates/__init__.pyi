from .certify import Certifier as Certifier
from .certify import CertifyResult as CertifyResult
from .certify import certifying as certifying
from .format import Certificate as Certificate
from .format import Maker as Maker
from .verify import Verification as Verification
