"""Max-margin programs: ATT-SVM, label SVM and any least-norm vector under linear constraints, with certificates."""

from fastmm.margin.attention_svm import att_svm
from fastmm.margin.certificate import Certificate, certify
from fastmm.margin.head_svm import label_svm
from fastmm.margin.least_norm import min_norm
from fastmm.margin.matrix_svm import weight_svm
from fastmm.margin.result import MaxMargin

__all__ = ["Certificate", "MaxMargin", "att_svm", "certify", "label_svm", "min_norm", "weight_svm"]
