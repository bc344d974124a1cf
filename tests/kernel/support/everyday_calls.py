"""A hundred and fifty calls as an agent makes them in a data scientist's kernel, and the cell that came before them.

Each of them works in the kernel itself, but for the one that needs a network where there is none.
"""

from __future__ import annotations

SETUP = """
%matplotlib inline
import asyncio, collections, concurrent.futures, csv, datetime as dt, functools, glob, hashlib, itertools, json, logging
import math, os, pathlib, re, sqlite3, statistics, subprocess, sys, tempfile, textwrap, time, zipfile
import duckdb, matplotlib.pyplot as plt, numpy as np, pandas as pd, polars as pl, pyarrow as pa, requests
import pyarrow.parquet as pq, pyarrow.csv
from pathlib import Path
rng = np.random.default_rng(7)
N = 200_000
df = pd.DataFrame({
    'order_id': np.arange(N), 'city': rng.choice(['Oslo', 'Bergen', 'Turku', 'Gent', None], N),
    'price': rng.gamma(2, 30, N).round(2), 'qty': rng.integers(1, 9, N),
    'when': pd.Timestamp('2026-01-01') + pd.to_timedelta(rng.integers(0, 300 * 86400, N), unit='s'),
    'email': [f'user{n}@example.org' for n in rng.integers(0, 5000, N)],
})
df.loc[::97, 'price'] = np.nan
customers = pd.DataFrame({'email': [f'user{n}@example.org' for n in range(5000)], 'segment': rng.choice(list('ABC'), 5000)})
X, y = rng.normal(size=(5000, 12)), rng.integers(0, 2, 5000)
cov = X.T @ X
image = rng.integers(0, 255, (64, 64), dtype=np.uint8)
config = {'db': {'host': 'localhost', 'port': 5432}, 'paths': ['data/orders.csv'], 'debug': False}
notes = 'Prices are net of tax. Orders of Turku lack VAT. See https://example.org/doc and mail ops@example.org.'
Path('data').mkdir(exist_ok=True)
df.head(20_000).to_csv('data/orders.csv', index=False)
df.to_parquet('data/orders.parquet')
customers.to_json('data/customers.json', orient='records')
Path('data/app.log').write_text(
    '\\n'.join(f'2026-11-{n % 28 + 1:02} {"ERROR" if n % 9 == 0 else "INFO"} step {n}' for n in range(2000))
)
con = duckdb.connect()
con.register('orders', df)
con.sql('select city, avg(price) from orders group by city').fetchall()
db = sqlite3.connect('data/shop.db')
db.execute('create table if not exists items (id integer primary key, name text, price real)')
db.executemany('insert into items (name, price) values (?, ?)', [(f'item {n}', n * 1.5) for n in range(500)])
db.commit()
pldf = pl.from_pandas(df.head(50_000))
pldf.group_by('city').agg(pl.col('price').mean())
pool = concurrent.futures.ThreadPoolExecutor(4)
list(pool.map(math.sqrt, range(100)))
class Basket:
    def __init__(self, lines): self.lines = lines
    def total(self): return sum(price * qty for price, qty in self.lines)
basket = Basket([(2.5, 4), (1.0, 2)])
def clean(frame): return frame.dropna(subset=['city', 'price']).assign(total=lambda f: f.price * f.qty)
logging.basicConfig(filename='data/run.log', level=logging.INFO)
logging.info('set up')
"""

CALLS = r"""
df.shape
---
df.head()
---
df.dtypes
---
df.info()
---
df.describe()
---
df.isna().sum()
---
df.city.value_counts(dropna=False)
---
df.groupby('city').price.describe()
---
df.groupby('city', dropna=False).agg(n=('order_id', 'size'), mean=('price', 'mean'))
---
df.sample(5, random_state=1)
---
df.nlargest(10, 'price')[['city', 'price']]
---
df.duplicated('email').sum()
---
df[df.price > df.price.quantile(0.99)].shape
---
df.price.quantile([0.01, 0.5, 0.99])
---
df.when.min(), df.when.max()
---
df.set_index('when').price.resample('W').mean().tail()
---
df.pivot_table(index='city', columns=df.when.dt.month, values='price', aggfunc='mean').round(1)
---
merged = df.merge(customers, on='email', how='left')
merged.segment.value_counts()
---
df.merge(customers, on='email', how='outer', indicator=True)._merge.value_counts()
---
trial = clean(df)
trial.shape, trial.total.sum().round(2)
---
clean(df).groupby('city').total.sum().sort_values()
---
pd.cut(df.qty, [0, 2, 5, 9]).value_counts()
---
pd.crosstab(df.city, df.qty)
---
df.select_dtypes('number').corr()
---
df.email.str.extract(r'user(\d+)@')[0].astype(int).describe()
---
df.email.str.split('@').str[1].unique()
---
df.memory_usage(deep=True).sum() / 1e6
---
df.assign(month=df.when.dt.to_period('M')).groupby('month').size()
---
df.price.rolling(1000).mean().dropna().head()
---
df.query("city == 'Oslo' and qty > 5").price.median()
---
df2 = df.copy()
df2['price'] = df2.price.fillna(df2.price.median())
df2.price.isna().sum()
---
df['total'] = df.price * df.qty
df.total.describe()
---
df.melt(id_vars='order_id', value_vars=['price', 'qty']).shape
---
df.apply(lambda column: column.nunique())
---
df.groupby('city').price.transform(lambda s: (s - s.mean()) / s.std()).describe()
---
df.sort_values(['city', 'when']).groupby('city').head(1)
---
pd.read_csv('data/orders.csv', nrows=3)
---
back = pd.read_csv('data/orders.csv', parse_dates=['when'])
back.dtypes
---
pd.read_parquet('data/orders.parquet', columns=['city']).city.nunique()
---
pd.read_json('data/customers.json').head(3)
---
pq.read_schema('data/orders.parquet')
---
pq.ParquetFile('data/orders.parquet').metadata.num_row_groups
---
pa.csv.read_csv('data/orders.csv').num_rows
---
pa.Table.from_pandas(df.head(1000)).group_by('city').aggregate([('price', 'mean')]).to_pandas()
---
X.shape, X.dtype, np.isnan(X).any()
---
X.mean(axis=0).round(3)
---
np.cov(X.T).shape
---
np.linalg.eigvalsh(cov)[:3]
---
u, s, vt = np.linalg.svd(X, full_matrices=False)
(s**2 / (s**2).sum()).round(3)
---
np.corrcoef(X[:, 0], y)
---
w, *_ = np.linalg.lstsq(X, y, rcond=None)
w.round(3)
---
np.histogram(df.price.dropna(), bins=5)
---
np.percentile(df.price.dropna(), [5, 50, 95])
---
big = rng.normal(size=(2000, 2000))
np.linalg.norm(big @ big)
---
np.fft.rfft(df.price.fillna(0).to_numpy()[:4096]).shape
---
mask = (X > 0).all(axis=1)
mask.sum(), y[mask].mean()
---
train, test = np.split(rng.permutation(len(X)), [4000])
beta = np.linalg.solve(X[train].T @ X[train] + np.eye(12), X[train].T @ y[train])
((X[test] @ beta > 0.5) == y[test]).mean()
---
np.unique(y, return_counts=True)
---
image.mean(), np.gradient(image.astype(float))[0].std()
---
rng.choice(5, size=3, replace=False)
---
np.allclose(cov, cov.T)
---
df.price.hist(bins=50)
---
df.groupby('city').price.mean().plot.bar(title='mean price')
---
fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(df.set_index('when').price.resample('D').mean())
ax.set_title('price by day')
---
plt.scatter(X[:500, 0], X[:500, 1], c=y[:500], s=4); plt.show()
---
plt.imshow(image, cmap='gray'); plt.colorbar();
---
fig, axes = plt.subplots(2, 2)
for axis, column in zip(axes.flat, X.T): axis.hist(column, bins=30)
fig.tight_layout()
---
df.boxplot('price', by='city')
---
plt.semilogy(np.linalg.svd(X, compute_uv=False))
plt.savefig(Path(tempfile.gettempdir()) / 'spectrum.png')
---
con.sql('select count(*) from orders').fetchall()
---
con.sql('select city, avg(price) p from orders group by city order by p').df()
---
con.sql("select date_trunc('month', \"when\") m, sum(price) from orders group by m order by m").df().head()
---
duckdb.sql("select count(*) from 'data/orders.parquet' where qty > 4").fetchall()
---
duckdb.sql("select city, count(*) n from read_csv('data/orders.csv') group by all").df()
---
duckdb.sql('select segment, avg(df.price) from df join customers using (email) group by segment').df()
---
con.sql('describe orders').df()
---
con.sql('summarize orders').df()[['column_name', 'null_percentage']]
---
sqlite3.connect('file:data/shop.db?mode=ro', uri=True).execute('select count(*) from items').fetchone()
---
pd.read_sql('select * from items limit 3', sqlite3.connect('file:data/shop.db?mode=ro', uri=True))
---
other = sqlite3.connect('data/shop.db')
other.execute('select avg(price) from items').fetchone()
---
memory = sqlite3.connect(':memory:')
memory.execute('create table t (a)'); memory.execute('insert into t values (1)')
memory.execute('select * from t').fetchall()
---
pd.read_sql('select name from sqlite_master', sqlite3.connect('data/shop.db'))
---
db.execute('select count(*) from items').fetchone()
---
pldf.head(3)
---
pldf.schema
---
pldf['price'].mean()
---
pldf.shape, pldf.columns
---
fresh = pd.DataFrame({c: pldf[c].to_pandas() for c in ('city', 'price')})
fresh.groupby('city').price.mean()
---
pldf.group_by('city').agg(pl.col('price').mean())
---
basket.total()
---
vars(basket)
---
import inspect
print(inspect.getsource(clean))
---
clean?
---
help(pd.DataFrame.pivot)
---
%timeit -n 3 -r 1 df.price.sum()
---
%time df.sort_values('price').shape
---
%who_ls DataFrame
---
!ls data
---
!head -3 data/orders.csv
---
!wc -l data/app.log
---
subprocess.run(['python3', '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout
---
sorted(glob.glob('data/*'))
---
[(p.name, p.stat().st_size) for p in Path('data').iterdir()]
---
Path('data/app.log').read_text().count('ERROR')
---
errors = [line for line in open('data/app.log') if 'ERROR' in line]
errors[:3], len(errors)
---
collections.Counter(line.split()[1] for line in open('data/app.log'))
---
json.load(open('data/customers.json'))[:2]
---
next(csv.DictReader(open('data/orders.csv')))
---
hashlib.sha256(Path('data/orders.csv').read_bytes()).hexdigest()[:12]
---
os.getcwd(), Path.home().exists()
---
Path('data/none.csv').exists()
---
re.findall(r'https?://\S+|\S+@\S+\.\w+', notes)
---
textwrap.wrap(notes, 40)
---
collections.Counter(re.findall(r'\w+', notes.lower())).most_common(3)
---
' '.join(reversed(notes.split()))[:30]
---
json.dumps(config, indent=2)
---
config['db']['port'], config.get('missing', 'none')
---
dt.datetime(2026, 11, 29).isocalendar()
---
pd.date_range('2026-01-31', periods=3, freq='ME')
---
statistics.median(df.qty.head(1000))
---
functools.reduce(lambda a, b: a + b, range(10))
---
list(itertools.islice(itertools.combinations('abcd', 2), 3))
---
math.comb(49, 6)
---
def total(frame):
    assert not frame.price.isna().all()
    return (frame.price * frame.qty).sum()
total(df.head(100))
---
for city, part in df.groupby('city'):
    print(f'{city:8} {len(part):7,} {part.price.mean():8.2f}')
---
from dataclasses import dataclass
@dataclass
class Line:
    price: float
    qty: int = 1
Line(2.0), Line(3.0, 2) == Line(3.0, 2)
---
list(pool.map(math.sqrt, range(5)))
---
with concurrent.futures.ThreadPoolExecutor(2) as two:
    print(list(two.map(len, ['a', 'bb'])))
---
await asyncio.sleep(0.01)
await asyncio.gather(*(asyncio.to_thread(math.factorial, n) for n in (5, 10)))
---
logging.getLogger('etl').warning('tried')
---
print('progress', end='\r'); print('done')
---
import warnings; warnings.warn('old')
---
from IPython.display import Markdown, display
display(Markdown('**bold**'), df.head(2))
---
df.head(3).style.format({'price': '{:.1f}'})
---
pd.set_option('display.max_columns', 50); df.head(1)
---
out = Path(tempfile.mkdtemp()) / 'part.csv'
df.head(10).to_csv(out); out.read_text()[:20]
---
with tempfile.NamedTemporaryFile('w+') as file:
    file.write('x'); file.seek(0); print(file.read())
---
import io
buffer = io.BytesIO(); df.head(5).to_parquet(buffer); buffer.tell() > 0
---
import pickle
len(pickle.dumps(df.head(100))) > 0
---
zipfile.ZipFile(io.BytesIO(), 'w').namelist()
---
sys.version_info[:2], pd.__version__, np.__version__
---
import importlib.metadata
importlib.metadata.version('numpy')
---
assert clean(df.head(50)).total.gt(0).all(), 'a test that I wrote'
---
try:
    clean(df.drop(columns='city'))
except KeyError as error:
    print('as expected:', error)
---
sum(1 for _ in Path('.').rglob('*.csv'))
---
df.to_csv('data/cleaned.csv', index=False)
---
requests.get('https://example.org', timeout=2).status_code
---
sys.getsizeof(df), len(globals()) > 10
---
pd.testing.assert_frame_equal(df.head(3), df.iloc[:3])
---
(df.price > 0).mean(), (df.qty.between(1, 8)).all()
""".strip().split("\n---\n")
