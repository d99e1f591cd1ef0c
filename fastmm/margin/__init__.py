"""Max-margin programs: ATT-SVM, label SVM and any least-norm vector under linear constraints, with certificates."""

from fastmm.margin.attention_svm import att_svm
from fastmm.margin.certificate import Certificate, certify
from fastmm.margin.head_svm import label_svm
from fastmm.margin.least_norm import min_norm
from fastmm.margin.matrix_svm import weight_svm
from fastmm.margin.result import MaxMargin
from fastmm.margin.sensitivity import margin_vjp
from fastmm.margin.set_svm import SetMargin, SetSolution, att_svm_sets

__all__ = [
    "Certificate",
    "MaxMargin",
    "SetMargin",
    "SetSolution",
    "att_svm",
    "att_svm_sets",
    "certify",
    "label_svm",
    "margin_vjp",
    "min_norm",
    "weight_svm",
]
