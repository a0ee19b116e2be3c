"""Words of the report: a glossary, and a checklist of what readers of a study ask for."""

from __future__ import annotations

GLOSSARY = {
    "leave-one-out": (
        "Leave-one-out",
        "Each row is judged by a model that has not seen it, so that no row can flatter itself.",
    ),
    "plain": ("Plain model", "The logistic regression as it is, before calibration."),
    "calibrated": (
        "Calibrated",
        "Of all rows that are given 30%, 30% turn out to have the class. A calibrated model is "
        "right about how often it is right.",
    ),
    "auc": (
        "AUC",
        "The area under the ROC curve, or c-statistic: how often a row of the class gets a higher "
        "probability than a row without it. 0.5 is guessing, 1 is perfect.",
    ),
    "interval": (
        "95% interval",
        "The values that these rows are compatible with. Were the study repeated often, 95% of "
        "such intervals would hold the true value.",
    ),
    "threshold": (
        "Threshold",
        "The probability from which on one would act, such as treat, biopsy or refer.",
    ),
    "sensitivity": (
        "Sensitivity",
        "Of the rows that have the class, the share that is at or above the threshold.",
    ),
    "specificity": (
        "Specificity",
        "Of the rows without the class, the share that is below the threshold.",
    ),
    "ppv": (
        "Positive predictive value",
        "Of the rows at or above the threshold, the share that has the class.",
    ),
    "npv": (
        "Negative predictive value",
        "Of the rows below the threshold, the share without the class.",
    ),
    "confusion": (
        "Confusion matrix",
        "How many rows of each kind were called what: right decisions and both kinds of error.",
    ),
    "in-the-large": (
        "Calibration in the large",
        "Whether probabilities are right on average. 0 is right; above 0 they are too low on the "
        "whole, below 0 too high.",
    ),
    "slope": (
        "Calibration slope",
        "Whether probabilities are spread out rightly. 1 is right; below 1 they are too extreme "
        "(overconfident), above 1 too cautious.",
    ),
    "intercept": (
        "Calibration intercept",
        "The shift that belongs to the slope, in log-odds. 0 is right where the slope is 1.",
    ),
    "ece": (
        "Calibration error (ECE)",
        "The mean distance between probability and frequency, over bins of rows with similar "
        "probabilities. Chance alone makes it larger than 0.",
    ),
    "log-loss": (
        "Log-loss",
        "The mean surprise at what came out: small where high probabilities were given to what "
        "happened. It counts discrimination and calibration together; lower is better.",
    ),
    "brier": (
        "Brier score",
        "The mean squared distance between probability and outcome; lower is better.",
    ),
    "net-benefit": (
        "Net benefit",
        "Right alarms less false alarms, a false one counting as much as the threshold says it "
        "costs. 0 is what acting on nobody gives.",
    ),
    "decision-curve": (
        "Decision curve",
        "The net benefit at every threshold. A model is worth using where its curve is above both "
        "acting on everybody and acting on nobody.",
    ),
    "learning-curve": (
        "Learning curve",
        "What a model of this kind is expected to reach with more labels.",
    ),
    "penalty": (
        "Penalty (C)",
        "How strongly large weights are held back, which many columns and few rows make necessary. "
        "A small C is a strong penalty.",
    ),
    "standardized": (
        "Standardized",
        "Brought to mean 0 and standard deviation 1, so that weights of different columns can be "
        "compared.",
    ),
}

HERE, YOURS = "in this report", "yours to tell"

CHECKLIST = (
    (
        "Title",
        "Says that a prediction model is developed, for whom and for which outcome",
        YOURS,
        "",
    ),
    ("Background", "The decision that the model is to support, and existing models", YOURS, ""),
    (
        "Fairness",
        "Known inequalities between groups of people, and how they were looked at",
        YOURS,
        "",
    ),
    (
        "Source of the data",
        "Where rows come from, when they were collected, for what purpose",
        YOURS,
        "",
    ),
    ("Participants", "Who was eligible, where, which treatments they had", YOURS, ""),
    ("Data preparation", "What was done to every column before the fit", HERE, "The data"),
    ("Outcome", "What was predicted, at which time, how and by whom it was determined", YOURS, ""),
    ("Predictors", "How, when and by whom they were measured", YOURS, ""),
    (
        "Sample size",
        "Rows, rows of each class, and what more of them would buy",
        HERE,
        "More labels",
    ),
    ("Missing data", "How many values were missing, and what they got", HERE, "The data"),
    (
        "Model",
        "Type of model, how its penalty was chosen, how it was calibrated",
        HERE,
        "For statisticians",
    ),
    ("Internal validation", "How figures were kept from flattering the model", HERE, "Comparison"),
    ("Discrimination", "AUC with its interval", HERE, "Discrimination"),
    ("Calibration", "A curve, slope and intercept with intervals", HERE, "Calibration"),
    ("Clinical usefulness", "Net benefit over the thresholds that matter", HERE, "Decisions"),
    ("Classes out of balance", "Whether rows were weighted or resampled", HERE, "The data"),
    (
        "Model specification",
        "All that is needed to predict a new row: the file of angcal fit --out",
        HERE,
        "What to do next",
    ),
    ("Performance in subgroups", "Discrimination and calibration by sex, age, site", YOURS, ""),
    ("Other populations", "Figures on rows from elsewhere or from later", YOURS, ""),
    ("Limitations", "Too few rows, biased selection, missing predictors", YOURS, ""),
    (
        "Use in practice",
        "Who uses it, with which input, what happens where input is missing",
        YOURS,
        "",
    ),
    ("Openness", "Protocol, registration, data, code, funding, conflicts of interest", YOURS, ""),
    ("Software", "Versions of what was used", HERE, "The data"),
)
