"""The datasets of the paper's two tables in the main text."""

from __future__ import annotations

from studies.datasets.catalogue.columns import PLUS_ONE, printed
from studies.datasets.homes import ByHand, OpenML, WebFile
from studies.datasets.labels import Groups, Threshold
from studies.datasets.spec import Dataset, Preparation

# The coordinates of an embedding share one unit, so that a coordinate a thousand times flatter
# than the median one is dead: rounding noise, which standardising would blow up.
EMBEDDING = Preparation(dead_share=1e-3)

PRETRAINED = (
    Dataset(
        name="cifar10",
        title="ResNet-34–CIFAR-10",
        table="dl",
        citation="Krizhevsky (2009). Learning multiple layers of features from tiny images. "
        "He, Zhang, Ren, Sun (2016). Deep residual learning for image recognition. CVPR.",
        home=ByHand(
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "The matrix is the last hidden layer of an image network on the CIFAR-10 images: run a "
            "pretrained network over them and save X and y.",
        ),
        file="cifar10_efficientnet.npz",
        standing="stand-in",
        remark="EfficientNet-Lite0 features of 6,187 images instead of ResNet-34 features of "
        "60,000; 1,280 columns instead of 512.",
        labels=Groups(("2", "3", "4", "5", "6", "7"), "animals against vehicles"),
        n=300,
        d=512,
        n_pool=30_000,
        n_test=10_000,
        printed=printed(0.1236, 0.0199, 0.0561, 0.0484, 0.0259, 0.0298),
        preparation=EMBEDDING,
    ),
    Dataset(
        name="newsgroups",
        title="MiniLM–20 Newsgroups",
        table="dl",
        citation="Lang (1995). NewsWeeder: learning to filter netnews. ICML. "
        "Wang et al. (2020). MiniLM. NeurIPS. "
        "Reimers, Gurevych (2019). Sentence-BERT. EMNLP.",
        home=ByHand(
            "http://qwone.com/~jason/20Newsgroups/",
            "The matrix is MiniLM's sentence embedding of every post: run the network over the "
            "posts and save X and y.",
        ),
        file="newsgroups_minilm.npz",
        standing="subset",
        remark="6,000 of the posts; columns 127, 223 and 319 are dead in the published weights and "
        "left out, so that 381 of 384 remain.",
        labels=Groups(
            ("1", "2", "3", "4", "5", "11", "12", "13", "14"),
            "computers and science against the other groups",
        ),
        n=800,
        d=384,
        n_pool=3_000,
        n_test=1_000,
        printed=printed(0.1392, 0.0249, 0.0931, 0.1107, 0.0679, 0.0813),
        preparation=EMBEDDING,
    ),
    Dataset(
        name="tox21",
        title="ChemBERTa–Tox21",
        table="dl",
        citation="Wu et al. (2018). MoleculeNet: a benchmark for molecular machine learning. "
        "Chemical Science. Chithrananda, Grand, Ramsundar (2020). ChemBERTa. arXiv:2010.09885.",
        home=ByHand(
            "https://moleculenet.org/datasets-1",
            "The matrix is a chemical language model's embedding of every molecule: run the "
            "network over the SMILES strings and save X and y.",
        ),
        file="tox21_smilesbert.npz",
        standing="stand-in",
        remark="SMILES-BERT features instead of ChemBERTa's; 256 columns, of rank 255 once "
        "centred, instead of 768.",
        labels=Groups(("1",), "active against inactive in SR-ARE", negative=("0",)),
        n=800,
        d=768,
        n_pool=3_000,
        n_test=500,
        printed=printed(0.1389, 0.0132, 0.0236, 0.0497, 0.0175, 0.0293),
        preparation=EMBEDDING,
    ),
)

UCI = (
    Dataset(
        name="communities",
        title="Communities & Crime",
        table="uci",
        citation="Redmond (2002). Communities and Crime. UCI Machine Learning Repository.",
        home=WebFile(
            page="https://archive.ics.uci.edu/dataset/183/communities+and+crime",
            url="https://archive.ics.uci.edu/static/public/183/communities+and+crime.zip",
            form="zip",
            member="communities.data",
            names_member="communities.names",
        ),
        file="communities.csv.gz",
        standing="as published",
        remark="Five identifiers and the 22 columns that are mostly missing are left out, which "
        "gives the paper's 100 columns.",
        labels=Threshold("violent crimes per person above the median"),
        n=200,
        d=100,
        n_pool=700,
        n_test=593,
        printed=printed(0.1700, 0.0296, 0.0620, 0.0661, 0.0262, 0.0436),
        preparation=Preparation(
            label="ViolentCrimesPerPop",
            drop=("state", "county", "community", "communityname", "fold"),
        ),
    ),
    Dataset(
        name="splice",
        title="Splice-junction Gene Seq",
        table="uci",
        citation="Towell, Noordewier, Shavlik (1991). Molecular Biology (Splice-junction Gene "
        "Sequences). UCI Machine Learning Repository.",
        home=OpenML(40670),
        file="splice.npz",
        standing="as published",
        remark="In the Statlog coding: three columns of 0 and 1 for each of 60 nucleotides.",
        labels=Groups(("1", "2"), "a junction against none"),
        n=100,
        d=180,
        n_pool=2_000,
        n_test=900,
        printed=printed(0.1262, 0.0208, 0.0568, 0.1041, 0.0556, 0.0879),
    ),
    Dataset(
        name="madelon",
        title="Madelon",
        table="uci",
        citation="Guyon, Gunn, Ben-Hur, Dror (2004). Result analysis of the NIPS 2003 feature "
        "selection challenge. NIPS.",
        home=OpenML(1485, recode=(("1", -1), ("2", 1))),
        file="madelon.npz",
        standing="as published",
        remark="The labelled rows of the challenge: training and validation part.",
        labels=PLUS_ONE,
        n=300,
        d=500,
        n_pool=900,
        n_test=900,
        printed=printed(0.1473, 0.0267, 0.0721, 0.0719, 0.0299, 0.0624),
    ),
)
