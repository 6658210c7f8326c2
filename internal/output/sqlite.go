package output

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

// What becomes of the rows that a SQLite table has from earlier runs.
const (
	ModeMerge   = "merge"   // rows with a known key are updated, new ones added, the others stay
	ModeReplace = "replace" // as merge, and rows that are no longer in the source are deleted
)

// KeyError says that the key of a table does not tell the rows of a run apart, so
// that the table would hold fewer of them.
type KeyError struct {
	Key     []string // columns by heading
	Rows    int64    // of the run
	Repeats int64    // rows with the key of an earlier one
}

// Error tells how many rows would be missing.
func (e *KeyError) Error() string {
	return fmt.Sprintf("%d of %d rows have the key (%s) of another row of the same run: the table would lack them", e.Repeats, e.Rows, strings.Join(e.Key, ", "))
}

// errClosed is for rows that come too late.
var errClosed = errors.New("the file is already complete")

// sqliteFile keeps a table of a SQLite database up to date. The database the
// target holds is copied with all its tables, the copy is changed in one
// transaction, and Close writes it to the output, whose publishing makes it the
// target in one step. Until then readers of the target see the old rows.
//
// Columns the table lacks are added; columns it has beside those of the job
// are left as they are. Integers, true and false (1 and 0) and exact decimals
// have SQLite's own types, dates are text. A number with more digits than its
// column can keep, and text that the column would turn into a number, are
// stored as a blob of the text: cast(x as text) gives every digit.
type sqliteFile struct {
	to      io.Writer
	target  string      // "" if the output is no file
	before  os.FileInfo // of the target when it was copied; nil if there was none
	dir     string      // of the copy
	path    string
	db      *sql.DB
	conn    *sql.Conn
	insert  *sql.Stmt
	table   string // quoted
	columns []sqliteColumn
	key     []int // positions of the key's columns
	replace bool
	// The rows of the table this run has written, by their number in it. A run of
	// 4096 rows is one entry, as rows are numbered without gaps.
	seen    map[int64]*[64]uint64
	repeats int64
	args    []any
	rows    int64
	err     error
	closed  bool
}

type sqliteColumn struct {
	name     string
	affinity affinity
	boolean  bool
}

// affinity is what SQLite turns the values of a column into where it can.
type affinity uint8

const (
	affinityNone affinity = iota
	affinityText
	affinityInteger
	affinityReal
	affinityNumeric
)

// affinityOf follows the rules of SQLite for a declared type.
func affinityOf(declared string) affinity {
	d := strings.ToUpper(declared)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(d, w) })
	}
	switch {
	case has("INT"):
		return affinityInteger
	case has("CHAR", "CLOB", "TEXT"):
		return affinityText
	case d == "", has("BLOB"):
		return affinityNone
	case has("REAL", "FLOA", "DOUB"): //nolint:misspell // as SQLite looks for it
		return affinityReal
	default:
		return affinityNumeric
	}
}

// sqliteTypes are the declared types by the kind of a column; a column that
// can hold anything has none.
var sqliteTypes = map[Kind]string{
	KindText: "TEXT", KindInt: "INTEGER", KindBool: "BOOLEAN", KindDate: "TEXT", KindNumber: "REAL", KindObject: "TEXT", KindList: "TEXT",
}

// sqliteMaxName bounds the name of a column.
const sqliteMaxName = 500

func newSQLite(w io.Writer, headers []string, spec Spec) (_ *sqliteFile, err error) {
	d := &sqliteFile{
		to: w, table: quoteName(sqliteTable(spec.Source)), seen: map[int64]*[64]uint64{},
		args: make([]any, len(headers)), replace: spec.Mode == ModeReplace,
	}
	if f, ok := w.(interface{ Target() string }); ok {
		d.target = f.Target()
	}
	names := uniqueNames(headers, sqliteMaxName)
	if d.key, err = keyColumns(spec); err != nil {
		return nil, err
	}
	if d.dir, err = os.MkdirTemp(spec.Temp, "rmmjob-sqlite-*.tmp"); err != nil {
		return nil, err
	}
	d.path = filepath.Join(d.dir, "copy.sqlite")
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Discard())
		}
	}()
	ctx := context.Background()
	if err := d.copyTarget(ctx); err != nil {
		return nil, err
	}
	// Looked at after the copy, which takes what a crash has left in a journal
	// into the file.
	if d.before, err = statDatabase(d.target); err != nil {
		return nil, err
	}
	if err := d.openCopy(ctx); err != nil {
		return nil, err
	}
	style := StyleFor(FileSQLite, spec.Style)
	kinds := make([]Kind, len(spec.Columns))
	for i, c := range spec.Columns {
		kinds[i] = c.cells(style)
	}
	if err := d.prepare(ctx, sqliteTable(spec.Source), names, kinds); err != nil {
		return nil, fmt.Errorf("table %s: %w", d.table, err)
	}
	return d, nil
}

// sqliteTable names the table of a source.
func sqliteTable(source string) string {
	name := identifier(source)
	if strings.HasPrefix(name, "sqlite_") {
		name = "_" + name // names SQLite keeps for itself
	}
	return name
}

// keyColumns finds the columns of the key.
func keyColumns(spec Spec) ([]int, error) {
	if len(spec.Key) == 0 && spec.Mode != ModeReplace {
		return nil, fmt.Errorf("rows can be merged by a key only: name the columns that tell them apart, as in key: [uid], or choose mode: %s", ModeReplace)
	}
	var key []int
	for _, name := range spec.Key {
		i := slices.IndexFunc(spec.Columns, func(c Column) bool { return c.Path == name })
		if i < 0 {
			i = slices.IndexFunc(spec.Columns, func(c Column) bool { return c.Header == name })
		}
		if i < 0 {
			return nil, fmt.Errorf("the key %q is none of the columns: add it to them", name)
		}
		if !slices.Contains(key, i) {
			key = append(key, i)
		}
	}
	return key, nil
}

// copyTarget copies the database that the target holds, by SQLite's own means,
// so that the copy is whole even if another program is writing to it, and what
// a crashed program has left in the database's journal is in it.
func (d *sqliteFile) copyTarget(ctx context.Context) (err error) {
	if d.target == "" {
		return nil
	}
	info, err := os.Stat(d.target)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = troubleWith("open", d.target, databaseFault(err)) }()
	db, err := sql.Open("sqlite", sqliteAddress(d.target, "mode=rw&_pragma=busy_timeout(10000)"))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // db.Close tells
	return conn.Raw(func(c any) error {
		source, ok := c.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return errors.New("the driver cannot copy a database")
		}
		backup, err := source.NewBackup(sqliteAddress(d.path, ""))
		if err != nil {
			return err
		}
		_, err = backup.Step(-1)
		return errors.Join(err, backup.Finish())
	})
}

// openCopy opens the copy. If anything goes wrong with it, it is thrown away:
// it needs no journal and no waiting for the disk.
func (d *sqliteFile) openCopy(ctx context.Context) error {
	var err error
	if d.db, err = sql.Open("sqlite", sqliteAddress(d.path, "")); err != nil {
		return err
	}
	d.db.SetMaxOpenConns(1)
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return err
	}
	// The first statement turns a database with a write-ahead log into a single
	// file. Deleted rows are overwritten, for they may have held secrets.
	for _, statement := range []string{
		"PRAGMA journal_mode=DELETE", "PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA locking_mode=EXCLUSIVE",
		"PRAGMA secure_delete=ON", "PRAGMA cache_size=-16384",
	} {
		if _, err := d.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// prepare begins the transaction and gives the table its columns.
func (d *sqliteFile) prepare(ctx context.Context, table string, names []string, kinds []Kind) error {
	if err := d.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	declared, err := d.declared(ctx, table)
	if err != nil {
		return err
	}
	var definitions []string
	for i, name := range names {
		definition := strings.TrimSpace(quoteName(name) + " " + sqliteTypes[kinds[i]])
		if kind, has := declared[fold(name)]; has {
			d.columns = append(d.columns, sqliteColumn{name, affinityOf(kind), kinds[i] == KindBool})
			continue
		}
		d.columns = append(d.columns, sqliteColumn{name, affinityOf(sqliteTypes[kinds[i]]), kinds[i] == KindBool})
		definitions = append(definitions, definition)
	}
	if len(declared) == 0 {
		err = d.exec(ctx, "CREATE TABLE "+d.table+" ("+strings.Join(definitions, ", ")+")")
	} else {
		for _, definition := range definitions {
			err = errors.Join(err, d.exec(ctx, "ALTER TABLE "+d.table+" ADD COLUMN "+definition))
		}
	}
	if err != nil {
		return err
	}
	if err := d.prepareKey(ctx, table); err != nil {
		return err
	}
	d.insert, err = d.conn.PrepareContext(ctx, d.statement()) //nolint:sqlclosecheck // Discard closes it
	return err
}

// declared gives the types of the columns of an existing table.
func (d *sqliteFile) declared(ctx context.Context, table string) (map[string]string, error) {
	rows, err := d.conn.QueryContext(ctx, "SELECT name, type FROM pragma_table_info(?)", table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types := map[string]string{}
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return nil, err
		}
		types[fold(name)] = kind
	}
	return types, rows.Err()
}

// prepareKey makes the key unique and drops the rows that no key can find
// again: all of them where there is no key, else those with an empty key.
func (d *sqliteFile) prepareKey(ctx context.Context, table string) error {
	if len(d.key) == 0 {
		return d.exec(ctx, "DELETE FROM "+d.table)
	}
	var columns, empty []string
	for _, i := range d.key {
		columns = append(columns, quoteName(d.columns[i].name))
		empty = append(empty, quoteName(d.columns[i].name)+" IS NULL")
	}
	if err := d.exec(ctx, "DELETE FROM "+d.table+" WHERE "+strings.Join(empty, " OR ")); err != nil {
		return err
	}
	index := quoteName("rmmjob_key_" + table)
	definition := "CREATE UNIQUE INDEX " + index + " ON " + d.table + " (" + strings.Join(columns, ", ") + ")"
	var present string
	err := d.conn.QueryRowContext(ctx, "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?", "rmmjob_key_"+table).Scan(&present)
	switch {
	case err == nil && present == definition:
		return nil
	case err == nil:
		// The job has got another key.
		if err := d.exec(ctx, "DROP INDEX "+index); err != nil {
			return err
		}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	if err := d.exec(ctx, definition); err != nil {
		return fmt.Errorf("the key does not tell its rows apart; name another key or file: %w", err)
	}
	return nil
}

// statement is what writes a row.
func (d *sqliteFile) statement() string {
	var names, key, updates []string
	for i, c := range d.columns {
		name := quoteName(c.name)
		names = append(names, name)
		if slices.Contains(d.key, i) {
			key = append(key, name)
			continue
		}
		updates = append(updates, name+" = excluded."+name)
	}
	text := "INSERT INTO " + d.table + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
	if len(key) > 0 {
		if updates == nil { // nothing but the key; an update of nothing gives the row's number all the same
			updates = []string{key[0] + " = excluded." + key[0]}
		}
		text += " ON CONFLICT (" + strings.Join(key, ", ") + ") DO UPDATE SET " + strings.Join(updates, ", ") + " RETURNING rowid"
	}
	return text
}

func (d *sqliteFile) exec(ctx context.Context, statement string) error {
	_, err := d.conn.ExecContext(ctx, statement)
	return err
}

// Row writes one row.
func (d *sqliteFile) Row(row []Value) error {
	if d.err != nil {
		return d.err
	}
	if d.closed {
		d.err = errClosed
		return d.err
	}
	if d.err = checkWidth(row, len(d.columns)); d.err != nil {
		return d.err
	}
	for i, v := range row {
		d.args[i] = d.columns[i].bind(v)
	}
	if d.err = d.put(); d.err != nil {
		d.err = fmt.Errorf("table %s, row %d: %w", d.table, d.rows+1, d.err)
		return d.err
	}
	d.rows++
	return nil
}

func (d *sqliteFile) put() error {
	ctx := context.Background()
	if len(d.key) == 0 {
		_, err := d.insert.ExecContext(ctx, d.args...)
		return err
	}
	var id int64
	if err := d.insert.QueryRowContext(ctx, d.args...).Scan(&id); err != nil {
		return err
	}
	page := d.seen[id>>12]
	if page == nil {
		page = new([64]uint64)
		d.seen[id>>12] = page
	}
	word, bit := &page[id>>6&63], uint64(1)<<(id&63)
	if *word&bit != 0 {
		d.repeats++
	}
	*word |= bit
	return nil
}

// bind gives a value in the type that keeps it as it is in the column.
func (c sqliteColumn) bind(v Value) any {
	if v.Kind == KindNull {
		return nil
	}
	if c.affinity == affinityText {
		return v.Text
	}
	switch v.Kind {
	case KindBool:
		if c.boolean || c.affinity == affinityNone {
			if v.Text == "true" {
				return int64(1)
			}
			return int64(0)
		}
	case KindInt:
		const exact = 1 << 53 // integers up to here are exact in a double
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if err == nil && strconv.FormatInt(n, 10) == v.Text && (c.affinity != affinityReal || -exact <= n && n <= exact) {
			return n
		}
	case KindNumber:
		if f, ok := exactFloat(v.Text); ok && !math.IsInf(f, 0) {
			return f
		}
	}
	if c.affinity != affinityNone && looksNumeric(v.Text) {
		return []byte(v.Text)
	}
	return v.Text
}

// looksNumeric reports whether SQLite might take text for a number.
func looksNumeric(text string) bool {
	return text != "" && strings.Trim(text, "0123456789+-.eE \t\n\v\f\r") == ""
}

// Rows is the number of rows so far.
func (d *sqliteFile) Rows() int64 { return d.rows }

// Close ends the transaction and writes the database to the output.
func (d *sqliteFile) Close() error {
	if d.closed {
		return d.err
	}
	if d.err == nil {
		d.err = d.save()
	}
	if err := d.Discard(); d.err == nil {
		d.err = err
	}
	return d.err
}

func (d *sqliteFile) save() error {
	ctx := context.Background()
	if d.repeats > 0 {
		e := &KeyError{Rows: d.rows, Repeats: d.repeats}
		for _, i := range d.key {
			e.Key = append(e.Key, d.columns[i].name)
		}
		return e
	}
	if d.replace && len(d.key) > 0 {
		if err := d.deleteUnseen(ctx); err != nil {
			return fmt.Errorf("table %s: delete rows that are gone: %w", d.table, err)
		}
	}
	if err := d.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	if err := d.closeCopy(); err != nil {
		return err
	}
	// A log that another program has open beside the target would be applied to
	// the new file and ruin it.
	if d.target != "" {
		if err := d.untouched(); err != nil {
			return err
		}
		for _, suffix := range []string{"-wal", "-journal"} {
			if info, err := os.Stat(d.target + suffix); err == nil && info.Size() > 0 {
				return troubleWith("replace", d.target, fmt.Errorf("another program has the database open (there is a file %s): close it there and go on",
					filepath.Base(d.target+suffix)))
			}
		}
	}
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{d.to}, struct{ io.Reader }{f}, make([]byte, 4*bufferSize))
	return errors.Join(err, f.Close())
}

// statDatabase is what tells one state of a database from another; nil for none.
func statDatabase(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, nil
	}
	return info, nil
}

// untouched refuses to replace a database that another program has changed since
// it was copied, such as another job with a table of its own in it.
func (d *sqliteFile) untouched() error {
	now, err := statDatabase(d.target)
	if err != nil {
		return err
	}
	was := d.before
	if now == nil && was == nil {
		return nil
	}
	if now == nil || was == nil || !os.SameFile(now, was) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) {
		return troubleWith("replace", d.target, errors.New("another program has changed the database meanwhile: go on, and it is written anew"))
	}
	return nil
}

// deleteUnseen deletes the rows that the run has not written, a handful at a
// time, since a table must not change while it is read.
func (d *sqliteFile) deleteUnseen(ctx context.Context) error {
	const batch = 10_000
	for after := int64(math.MinInt64); ; {
		var gone []int64
		n, err := d.unseen(ctx, after, batch, func(id int64, seen bool) {
			after = id
			if !seen {
				gone = append(gone, id)
			}
		})
		if err != nil {
			return err
		}
		for _, id := range gone {
			if _, err := d.conn.ExecContext(ctx, "DELETE FROM "+d.table+" WHERE rowid = ?", id); err != nil {
				return err
			}
		}
		if n < batch {
			return nil
		}
	}
}

// unseen calls visit with up to limit row numbers behind after.
func (d *sqliteFile) unseen(ctx context.Context, after int64, limit int, visit func(id int64, seen bool)) (n int, err error) {
	rows, err := d.conn.QueryContext(ctx, "SELECT rowid FROM "+d.table+" WHERE rowid > ? ORDER BY rowid LIMIT ?", after, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return n, err
		}
		n++
		page := d.seen[id>>12]
		visit(id, page != nil && page[id>>6&63]&(1<<(id&63)) != 0)
	}
	return n, rows.Err()
}

// closeCopy closes the copy, which is whole afterwards.
func (d *sqliteFile) closeCopy() error {
	var problems error
	if d.insert != nil {
		problems = d.insert.Close()
		d.insert = nil
	}
	if d.conn != nil {
		if err := d.conn.Close(); !errors.Is(err, sql.ErrConnDone) && !errors.Is(err, driver.ErrBadConn) {
			problems = errors.Join(problems, err)
		}
		d.conn = nil
	}
	if d.db != nil {
		problems = errors.Join(problems, d.db.Close())
		d.db = nil
	}
	return problems
}

// Discard removes the copy.
func (d *sqliteFile) Discard() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(d.closeCopy(), os.RemoveAll(d.dir))
}

// quoteName writes a name of SQL.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// sqliteAddress is a file as the driver wants it, whatever signs are in its
// path.
func sqliteAddress(path, query string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/x is file:///C:/x
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}
