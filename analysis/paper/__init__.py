"""The paper's reported numbers as data, with loaders in `analysis.paper.reported`. What the files hold: notes.md."""
