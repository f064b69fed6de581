// Package storetest checks that a store behaves as [store.Store] documents.
//
// A store's own test calls [Run]:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return newStore(t) })
//	}
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
)

// Run checks that a store behaves as [store.Store] documents and, if the store supports them, that
// listing ([store.Capabilities]) and [store.TryReader] do. For each test, Run calls open, which
// must return an empty store, and register its cleanup with t.Cleanup. The store needs room for 8
// MiB. If a store cannot pass some tests, lacks lists their names, each followed by a colon and the
// reason; these tests are left out.
func Run(t *testing.T, open func(t *testing.T) store.Store, lacks ...string) {
	run(t, open, slices.Concat(uploadTests, []contractTest[store.Store]{
		{"Exclusive", testExclusive},
		{"ExclusiveAtCommit", testExclusiveAtCommit},
		{"OneExclusiveWins", testOneExclusiveWins},
		{"CommitsWhileReading", testCommitsWhileReading},
		{"Perm", testPerm},
		{"Stat", testStat},
		{"ReadAt", testReadAt},
		{"Closed", testClosed},
		{"CloseWhileReading", testCloseWhileReading},
		{"NotRegular", testNotRegular},
		{"ReadDir", testReadDir},
	}), lacks)
}

// RunUploads runs the tests of [Run] that concern uploads. It is for stores that pass files on
// instead of keeping them. open returns a store that wraps the store under test: its Open and Stat
// must find the file that was last committed under a name. For missing files, and for errors, it
// uses the store under test.
func RunUploads(t *testing.T, open func(t *testing.T) store.Store) {
	run(t, open, uploadTests, nil)
}

// A contractTest tests one part of the behavior that [store.Store] or [store.Tree] documents.
type contractTest[S any] struct {
	name string
	test func(*testing.T, S)
}

var uploadTests = []contractTest[store.Store]{
	{"RoundTrip", testRoundTrip},
	{"WriteOrder", testWriteOrder},
	{"WriteConcurrently", testWriteConcurrently},
	{"WriteZeros", testWriteZeros},
	{"WriteAtRandom", testWriteAtRandom},
	{"Grow", testGrow},
	{"SizeDoesNotBind", testSizeDoesNotBind},
	{"Truncate", testTruncate},
	{"HiddenUntilCommit", testHiddenUntilCommit},
	{"OpenFileKeepsContent", testOpenFileKeepsContent},
	{"CloseDiscards", testCloseDiscards},
	{"EndedUpload", testEndedUpload},
	{"LastCommitWins", testLastCommitWins},
	{"TryReadAt", testTryReadAt},
	{"Names", testNames},
	{"BadOffsets", testBadOffsets},
	{"Errors", testErrors},
	{"Context", testContext},
}

// run runs the tests, except those whose names are in lacks.
func run[S any](t *testing.T, open func(t *testing.T) S, tests []contractTest[S], lacks []string) {
	left := map[string]bool{}
	for _, lack := range lacks {
		name, reason, _ := strings.Cut(lack, ":")
		left[name] = true
		if reason == "" || !slices.ContainsFunc(tests, func(tt contractTest[S]) bool { return tt.name == name }) {
			t.Errorf("%q is not the name of a test, a colon and a reason", lack)
		}
	}
	for _, tt := range tests {
		if !left[tt.name] {
			t.Run(tt.name, func(t *testing.T) { tt.test(t, open(t)) })
		}
	}
}

func testRoundTrip(t *testing.T, st store.Store) {
	for _, size := range []int{0, 1, 511, 512, 64 << 10, 64<<10 + 1, 1 << 20} {
		for _, announced := range []int64{0, -1, int64(size)} {
			name := fmt.Sprintf("f-%d-%d", size, announced)
			data := pattern(size, byte(size))
			u := create(t, st, name, store.Create{Size: announced})
			write(t, u, data, 0)
			commit(t, u)
			wantContent(t, st, name, data)
		}
	}
}

func testHiddenUntilCommit(t *testing.T, st store.Store) {
	u := create(t, st, "f", store.Create{})
	write(t, u, "new", 0)
	wantMissing(t, st, "f")
	commit(t, u)
	wantContent(t, st, "f", []byte("new"))

	u = create(t, st, "f", store.Create{})
	write(t, u, "newer", 0)
	wantContent(t, st, "f", []byte("new"))
	commit(t, u)
	wantContent(t, st, "f", []byte("newer"))
}

func testOpenFileKeepsContent(t *testing.T, st store.Store) {
	Put(t, st, "f", "old content")
	f := open(t, st, "f")
	Put(t, st, "f", "new")
	if got := readAll(t, f); string(got) != "old content" {
		t.Errorf("file open since before the replacement reads %q, want the old content", got)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != int64(len("old content")) {
		t.Errorf("its Stat = %v, %v, want the old size", fi, err)
	}
	wantContent(t, st, "f", []byte("new"))
}

func testCloseDiscards(t *testing.T, st store.Store) {
	Put(t, st, "old", "old")
	for _, name := range []string{"old", "new"} {
		u := create(t, st, name, store.Create{Size: 100})
		write(t, u, "discarded", 0)
		if err := u.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := u.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
	}
	wantContent(t, st, "old", []byte("old"))
	wantMissing(t, st, "new")
}

func testEndedUpload(t *testing.T, st store.Store) {
	committed := create(t, st, "f", store.Create{})
	write(t, committed, "kept", 0)
	commit(t, committed)
	if err := committed.Close(); err != nil {
		t.Errorf("Close after Commit: %v", err)
	}
	closed := create(t, st, "g", store.Create{})
	if err := closed.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for what, u := range map[string]store.Upload{"Commit": committed, "Close": closed} {
		_, err := u.WriteAt([]byte("x"), 0)
		wantError(t, "WriteAt after "+what, err, fs.ErrClosed)
		wantError(t, "Truncate after "+what, u.Truncate(0), fs.ErrClosed)
		wantError(t, "Commit after "+what, u.Commit(), fs.ErrClosed)
	}
	wantContent(t, st, "f", []byte("kept"))
	wantMissing(t, st, "g")
}

func testLastCommitWins(t *testing.T, st store.Store) {
	first := create(t, st, "f", store.Create{})
	second := create(t, st, "f", store.Create{})
	write(t, first, pattern(5000, 1), 0)
	write(t, second, pattern(3000, 2), 0)
	commit(t, second)
	wantContent(t, st, "f", pattern(3000, 2))
	commit(t, first)
	wantContent(t, st, "f", pattern(5000, 1))
}

func testExclusive(t *testing.T, st store.Store) {
	u := create(t, st, "f", store.Create{Exclusive: true})
	write(t, u, "first", 0)
	commit(t, u)
	wantContent(t, st, "f", []byte("first"))
	_, err := st.Create(t.Context(), "f", store.Create{Exclusive: true})
	wantError(t, "exclusive Create of a name that exists", err, fs.ErrExist)
	Put(t, st, "f", "second")
	wantContent(t, st, "f", []byte("second"))
}

func testExclusiveAtCommit(t *testing.T, st store.Store) {
	u := create(t, st, "f", store.Create{Exclusive: true})
	write(t, u, "mine", 0)
	Put(t, st, "f", "theirs")
	wantError(t, "exclusive Commit to a name taken meanwhile", u.Commit(), fs.ErrExist)
	if err := u.Close(); err != nil {
		t.Errorf("Close after a failed Commit: %v", err)
	}
	wantContent(t, st, "f", []byte("theirs"))
}

func testOneExclusiveWins(t *testing.T, st store.Store) {
	const writers = 8
	var uploads [writers]store.Upload
	for i := range uploads {
		uploads[i] = create(t, st, "f", store.Create{Exclusive: true})
		write(t, uploads[i], pattern(1000, byte(i)), 0)
	}
	var wg sync.WaitGroup
	var errs [writers]error
	for i, u := range uploads {
		wg.Go(func() { errs[i] = u.Commit() })
	}
	wg.Wait()
	won := wantOneWinner(t, errs[:])
	wantContent(t, st, "f", pattern(1000, byte(won)))
}

// testCommitsWhileReading replaces a file again and again while goroutines read it.
func testCommitsWhileReading(t *testing.T, st store.Store) {
	const versions, size = 20, 10_000
	Put(t, st, "f", string(bytes.Repeat([]byte{0}, size)))
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		writers.Go(func() {
			for v := range versions {
				u, err := st.Create(t.Context(), "f", store.Create{Size: size})
				if err != nil {
					t.Error(err)
					return
				}
				write(t, u, bytes.Repeat([]byte{byte(v)}, size), 0)
				commit(t, u)
			}
		})
		readers.Go(func() {
			for {
				wantWhole(t, st, size)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// wantWhole checks that the file "f" has size bytes, and that all of them are from the same
// version.
func wantWhole(t *testing.T, st store.Store, size int) {
	f, err := st.Open(t.Context(), "f")
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || len(got) != size || bytes.Count(got, got[:1]) != size {
		t.Errorf("a reader saw %d bytes (%v) that are no version of the file", len(got), err)
	}
}

func testPerm(t *testing.T, st store.Store) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	tests := []struct {
		name       string
		perm, want fs.FileMode
	}{
		{"zero", 0, 0o644},
		{"private", 0o600, 0o600},
		{"everybody", 0o666, 0o666},
		{"setuid", fs.ModeSetuid | 0o755, 0o755},
	}
	for _, tt := range tests {
		for _, exclusive := range []bool{true, false} { // the second upload replaces the first file
			u := create(t, st, tt.name, store.Create{Perm: tt.perm, Exclusive: exclusive})
			commit(t, u)
			wantMode(t, st, tt.name, tt.want)
			tt.perm = 0o640 // has no effect, because the file exists by now
		}
	}
}

func testStat(t *testing.T, st store.Store) {
	Put(t, st, "f", "12345")
	fi, err := st.Stat(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if fi.Name() != "f" || fi.Size() != 5 || !fi.Mode().IsRegular() || fi.IsDir() || fi.ModTime().IsZero() {
		t.Errorf("Stat = %v", fs.FormatFileInfo(fi))
	}
	ofi, err := open(t, st, "f").Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fs.FormatFileInfo(ofi), fs.FormatFileInfo(fi); got != want {
		t.Errorf("File.Stat = %s, want %s", got, want)
	}
	if fi, err := st.Stat(t.Context(), "."); err != nil || !fi.IsDir() {
		t.Errorf("Stat of the root = %v, %v, want a directory", fi, err)
	}
}

func testReadAt(t *testing.T, st store.Store) {
	Put(t, st, "f", "0123456789")
	f := open(t, st, "f")
	tests := []struct {
		off  int64
		len  int
		want string
		err  error
	}{
		{0, 4, "0123", nil},
		{6, 3, "678", nil},
		{6, 8, "6789", io.EOF},
		{10, 1, "", io.EOF},
		{1 << 40, 1, "", io.EOF},
	}
	for _, tt := range tests {
		buf := make([]byte, tt.len)
		n, err := f.ReadAt(buf, tt.off)
		if string(buf[:n]) != tt.want || err != tt.err {
			t.Errorf("ReadAt(%d bytes, %d) = %q, %v, want %q, %v", tt.len, tt.off, buf[:n], err, tt.want, tt.err)
		}
	}
	if n, err := f.ReadAt(make([]byte, 10), 0); n != 10 || err != nil && err != io.EOF {
		t.Errorf("ReadAt up to the end = %d, %v, want 10 and no error or io.EOF", n, err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close again: %v, want fs.ErrClosed", err)
	}
}

func testNames(t *testing.T, st store.Store) {
	for _, name := range badNames {
		_, err := st.Open(t.Context(), name)
		wantError(t, fmt.Sprintf("Open(%q)", name), err, fs.ErrInvalid)
		_, err = st.Stat(t.Context(), name)
		wantError(t, fmt.Sprintf("Stat(%q)", name), err, fs.ErrInvalid)
		_, err = st.Create(t.Context(), name, store.Create{})
		wantError(t, fmt.Sprintf("Create(%q)", name), err, fs.ErrInvalid)
	}
	good := []string{"f", ".f", "..f", "a b", "-", "~", "%2e%2e", "é", "日本", strings.Repeat("x", 200)}
	if runtime.GOOS != "windows" { // Windows removes dots at the end of a name
		good = append(good, "...")
	}
	for _, name := range good {
		Put(t, st, name, name)
	}
	wantContent(t, st, "..f", []byte("..f"))
	wantContent(t, st, "日本", []byte("日本"))
}

func testNotRegular(t *testing.T, st store.Store) {
	Put(t, st, "f", "x")
	_, err := st.Open(t.Context(), ".")
	wantError(t, "Open of a directory", err, store.ErrNotRegular)
	wantError(t, "Open of a directory", err, fs.ErrPermission)
	_, err = st.Create(t.Context(), ".", store.Create{})
	wantError(t, "Create of a directory", err, store.ErrNotRegular)
	_, err = st.Create(t.Context(), ".", store.Create{Exclusive: true})
	wantError(t, "exclusive Create of a directory", err, fs.ErrExist)
	_, err = st.Create(t.Context(), "f/g", store.Create{})
	wantError(t, "Create below a file", err, fs.ErrNotExist)
	_, err = st.Open(t.Context(), "f/g")
	wantError(t, "Open below a file", err, fs.ErrNotExist)
}

func testBadOffsets(t *testing.T, st store.Store) {
	u := create(t, st, "f", store.Create{})
	_, err := u.WriteAt([]byte("x"), -1)
	wantError(t, "WriteAt(-1)", err, fs.ErrInvalid)
	_, err = u.WriteAt([]byte("xy"), 1<<63-2)
	wantError(t, "WriteAt beyond all sizes", err, fs.ErrInvalid)
	wantError(t, "Truncate(-1)", u.Truncate(-1), fs.ErrInvalid)
	if n, err := u.WriteAt(nil, 1000); n != 0 || err != nil {
		t.Errorf("WriteAt of nothing = %d, %v", n, err)
	}
	commit(t, u)
	wantContent(t, st, "f", nil)
	f := open(t, st, "f")
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
		t.Errorf("ReadAt(-1): %v, want an error", err)
	}
}

func testErrors(t *testing.T, st store.Store) {
	_, err := st.Open(t.Context(), "some-name")
	wantError(t, "Open of nothing", err, fs.ErrNotExist)
	if s := err.Error(); !strings.Contains(s, "open") || !strings.Contains(s, "some-name") {
		t.Errorf("error %q does not say what was attempted on what", s)
	}
	_, err = st.Stat(t.Context(), "some-name")
	wantError(t, "Stat of nothing", err, fs.ErrNotExist)
}

func testContext(t *testing.T, st store.Store) {
	Put(t, st, "f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := st.Open(ctx, "f")
	wantError(t, "Open", err, context.Canceled)
	_, err = st.Stat(ctx, "f")
	wantError(t, "Stat", err, context.Canceled)
	_, err = st.Create(ctx, "g", store.Create{})
	wantError(t, "Create", err, context.Canceled)
}
