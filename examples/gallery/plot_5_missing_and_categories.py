"""
Categories and missing cells
============================

Pass a data frame as it is: text and categories become indicators, and so do missing cells. The table is synthetic: rent
by area, year and district. A quarter of the years are missing, and rents are lower where the year is missing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from hgk import HGKRegressor

rng = np.random.default_rng(0)
n = 1200
frame = pd.DataFrame(
    {
        "area": rng.gamma(6, 12, n),
        "year": rng.integers(1900, 2020, n).astype(float),
        "district": rng.choice(["harbour", "hills", "old town", "west"], n, p=[0.2, 0.2, 0.3, 0.3]),
    }
)
rate = frame["district"].map({"harbour": 11.0, "hills": 14.0, "old town": 17.0, "west": 9.0})
unknown = rng.random(n) < 0.25
rent = frame["area"] * (rate + 0.02 * (frame["year"] - 1960)) - 150 * unknown + 60 * rng.standard_normal(n)
frame.loc[unknown, "year"] = np.nan
print(frame.head())

# %%
# Nothing has to be imputed or encoded beforehand. A district that was not in the training set is accepted too.

model = HGKRegressor(random_state=0).fit(frame[:200], rent[:200])
print(f"R² on 1000 new rows: {model.score(frame[200:], rent[200:]):.3f}")
print(model.predict(pd.DataFrame({"area": [70.0, 70.0], "year": [2001.0, np.nan], "district": ["hills", "harbor"]})))

# %%
# The predicted rent of a flat of 70 m² in each district, by year; the dots are predictions with a missing year.

years = np.arange(1900, 2020, 5.0)
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for district in ["old town", "hills", "harbour", "west"]:
    table = pd.DataFrame({"area": 70.0, "year": [*years, np.nan], "district": district})
    said = model.predict(table)
    (line,) = ax.plot(years, said[:-1], label=district)
    ax.plot(2028, said[-1], "o", color=line.get_color())
ax.set_xticks([1900, 1940, 1980, 2020, 2028], ["1900", "1940", "1980", "", "missing"])
ax.set_ylabel("rent")
ax.legend(frameon=False, ncols=2)
plt.show()
