package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/s3test"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// names returns the names that OpenDir lists, sorted. Names of directories end in a slash.
func names(t *testing.T, s *Store, dir string) []string {
	t.Helper()
	e, err := s.OpenDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var list []string
	batch := make([]fs.FileInfo, 100)
	for {
		n, err := e.Next(batch)
		for _, fi := range batch[:n] {
			name := fi.Name()
			if fi.IsDir() {
				name += "/"
			}
			list = append(list, name)
		}
		if err == io.EOF {
			slices.Sort(list)
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Keys that are not names of files are not listed, and cannot be opened, removed or copied. Odd
// characters are preserved.
func TestOddKeys(t *testing.T) {
	f := newFake(t)
	odd := []string{"a b", "a+b", "a%2Fb", "ü", "日本", "a\\b", "a:b", "a\"b<>&'", "~", "-", "a\tb", "..a", "a\nb", "\x01"}
	for _, name := range odd {
		f.Put("dir/"+name, name)
	}
	for _, key := range []string{"a//b", "../x", "dir/../y", "/lead", "dir/./z", "dir//z", "dir/", "..", ".", "dir/..", "dir/a\x00b"} {
		f.Put(key, "hostile")
	}
	s := f.store()
	if got, want := names(t, s, "."), []string{"a/", "dir/"}; !slices.Equal(got, want) {
		t.Errorf("the root has %q, want %q", got, want)
	}
	if got := names(t, s, "a"); len(got) > 0 {
		t.Errorf("a has %q", got)
	}
	want := slices.Clone(odd)
	slices.Sort(want)
	if got := names(t, s, "dir"); !slices.Equal(got, want) {
		t.Errorf("dir has %q, want %q", got, want)
	}
	for _, name := range odd {
		file, err := s.Open(t.Context(), "dir/"+name)
		if err != nil {
			t.Errorf("Open(%q): %v", name, err)
			continue
		}
		if b, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<20)); err != nil || string(b) != name {
			t.Errorf("%q has %q, %v", name, b, err)
		}
		file.Close()
	}
	to := store.Mem(1 << 20)
	if res, err := treecopy.Copy(t.Context(), treecopy.Job{Sources: []treecopy.Source{{Tree: s, Name: "."}}, To: to, Target: "out/",
		Options: treecopy.Options{Recursive: true}}); err != nil || res.Copied != int64(len(odd)) {
		t.Errorf("a copy of all: %+v, %v", res, err)
	}
	for _, name := range []string{"../x", "a//b", "/lead", "..", "\xff"} {
		if _, err := s.Stat(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Stat(%q): %v", name, err)
		}
	}
}

// A directory of 100,000 names is listed page by page, even if pages are lost. ReadDir refuses it,
// because it would hold the list in memory.
func TestManyNames(t *testing.T) {
	f := newFake(t)
	files := 100_000
	if race.Enabled { // more pages would not add other interleavings
		files = 10_000
	}
	f.SetHook(pagesOf(files))
	s := f.store()
	if got := names(t, s, "d"); len(got) != files || got[files-1] != fmt.Sprintf("%06d", files-1) {
		t.Errorf("%d names", len(got))
	}
	if race.Enabled {
		return // too few names to be refused
	}
	if _, err := s.ReadDir(t.Context(), "d"); err == nil || !strings.Contains(err.Error(), "65536") {
		t.Errorf("ReadDir: %v", err)
	}
}

// pagesOf returns a hook that lists the given number of files, with numbers as names. Every seventh
// answer is lost.
func pagesOf(files int) func(http.ResponseWriter, *http.Request) bool {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		if r.Method != "GET" || q.Get("list-type") != "2" {
			return false
		}
		if asked.Add(1)%7 == 0 {
			panic(http.ErrAbortHandler)
		}
		first := 0
		after := q.Get("continuation-token")
		if after == "" {
			after = strings.TrimPrefix(q.Get("start-after"), "d/")
		}
		if n, err := fmt.Sscanf(after, "%d", &first); n == 1 && err == nil {
			first++
		}
		var b strings.Builder
		b.WriteString("<ListBucketResult><EncodingType>url</EncodingType>")
		end := min(first+1000, files)
		for i := first; i < end; i++ {
			fmt.Fprintf(&b, "<Contents><Key>d/%06d</Key><LastModified>2001-09-09T01:46:40.000Z</LastModified><ETag>x</ETag><Size>0</Size></Contents>", i)
		}
		if end < files {
			fmt.Fprintf(&b, "<IsTruncated>true</IsTruncated><NextContinuationToken>%06d</NextContinuationToken>", end-1)
		}
		b.WriteString("</ListBucketResult>")
		_, _ = io.WriteString(w, b.String())
		return true
	}
}

// A server that lists the same page again and again is detected.
func TestListingInACircle(t *testing.T) {
	f := newFake(t)
	s := f.store()
	f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.WriteString(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>
			<Contents><Key>a</Key><ETag>x</ETag><LastModified>2001-09-09T01:46:40.000Z</LastModified></Contents><CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes></ListBucketResult>`)
		return true
	})
	if _, err := s.ReadDir(t.Context(), "."); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.OpenDir(ctx, "."); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An endless page of a listing takes no more memory than maxAnswer and maxTags allow.
func TestListingWithoutEnd(t *testing.T) {
	f := newFake(t)
	s := f.store()
	for what, piece := range map[string]string{"one key": strings.Repeat("a", 64<<10), "many keys": "</Key></Contents>" + strings.Repeat("<Contents/>", 4<<10) + "<Contents><Key>a"} {
		f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
			_, err := io.WriteString(w, "<ListBucketResult><Contents><Key>")
			for sent := 0; err == nil && sent < 8*maxAnswer; sent += len(piece) {
				_, err = io.WriteString(w, piece)
			}
			return true
		})
		_, err := s.ReadDir(t.Context(), ".")
		f.Server.CloseClientConnections()
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A directory exists as long as a key begins with its name. A directory that was made by a console
// disappears with its object.
func TestDirectories(t *testing.T) {
	f := newFake(t)
	f.Put("made/", "")
	f.Put("d/f", "x")
	f.Put("d//hidden", "x")
	f.Put("d2/f", "x")
	s := f.store()
	for _, dir := range []string{"made", "d"} {
		if fi, err := s.Stat(t.Context(), dir); err != nil || !fi.IsDir() {
			t.Errorf("%s: %v, %v", dir, fi, err)
		}
		if _, err := s.Open(t.Context(), dir); !errors.Is(err, store.ErrNotRegular) {
			t.Errorf("Open(%s): %v", dir, err)
		}
		if err := s.Remove(t.Context(), dir); !errors.Is(err, store.ErrNotRegular) {
			t.Errorf("Remove(%s): %v", dir, err)
		}
	}
	if err := s.RemoveDir(t.Context(), "d"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("RemoveDir of a directory with a file: %v", err)
	}
	if err := s.RemoveDir(t.Context(), "made"); err != nil {
		t.Error(err)
	}
	if err := s.RemoveDir(t.Context(), "made"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("RemoveDir again: %v", err)
	}
	if err := s.Mkdir(t.Context(), "new", 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Mkdir: %v", err)
	}
}

// A renamed file keeps its content, and replaces another file only if it is allowed to. Directories
// cannot be renamed.
func TestRename(t *testing.T) {
	c := startGateway(t)
	s := newStore(t, "", c)
	ctx := t.Context()
	data := randomBytes(1000)
	for _, size := range []int{0, 1000} {
		for _, replace := range []bool{false, true} {
			put(t, s, "d/a", data[:size], store.Create{})
			if err := s.Rename(ctx, "d/a", "e/b", replace); err != nil {
				t.Fatalf("%d bytes, replace %v: %v", size, replace, err)
			}
			if got, _, err, _ := readBoth(t, s, "e/b"); err != nil || string(got) != string(data[:size]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if _, err := s.Stat(ctx, "d/a"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the old name: %v", err)
			}
			put(t, s, "d/a", []byte("other"), store.Create{})
			if err := s.Rename(ctx, "d/a", "e/b", false); !errors.Is(err, fs.ErrExist) {
				t.Errorf("to a name that is taken: %v", err)
			}
			if err := s.Remove(ctx, "e/b"); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, s, "e/b", []byte("x"), store.Create{})
	for _, tt := range []struct {
		from, to string
		want     error
	}{{"d", "x", errors.ErrUnsupported}, {"none", "x", fs.ErrNotExist}, {"d/a", "e", fs.ErrExist}, {".", "x", fs.ErrPermission}} {
		if err := s.Rename(ctx, tt.from, tt.to, true); !errors.Is(err, tt.want) {
			t.Errorf("Rename(%s, %s): %v, want %v", tt.from, tt.to, err, tt.want)
		}
	}
	if err := s.removeTree(ctx, "d"); err != nil {
		t.Error(err)
	}
	if got := names(t, s, "."); !slices.Equal(got, []string{"e/"}) {
		t.Errorf("%q is left", got)
	}
	if err := s.removeTree(ctx, "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("RemoveAll again: %v", err)
	}
}

// A source that another client replaces after it was copied to its new name is not removed.
func TestRenameReplacedSource(t *testing.T) {
	f := newFake(t)
	f.Put("from", "content")
	described := 0
	f.SetHook(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead && strings.HasSuffix(r.URL.Path, "/from") {
			if described++; described == 2 {
				f.Put("from", "newer")
			}
		}
		return false
	})
	s := f.store()
	if err := s.Rename(t.Context(), "from", "to", true); !errors.Is(err, store.ErrChanged) {
		t.Errorf("got %v", err)
	}
	if got, _ := f.Content("from"); got != "newer" {
		t.Errorf("the source has %q", got)
	}
}

// Renaming a file to its own name sends nothing that could remove the file, even if the file is
// missing for a moment because another client replaces it.
func TestRenameToOwnName(t *testing.T) {
	for replace, want := range map[bool]error{true: nil, false: fs.ErrExist} {
		f := newFake(t)
		f.Put("f", "content")
		s := f.store()
		heads := 0
		f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodHead {
				return false
			}
			if heads++; heads == 2 {
				s3test.Refuse(w, r, 404, "NoSuchKey")
			}
			return heads == 2
		})
		f.Asked()
		if err := s.Rename(t.Context(), "f", "f", replace); !errors.Is(err, want) {
			t.Errorf("replace %v: %v", replace, err)
		}
		if got, _ := f.Content("f"); got != "content" {
			t.Errorf("replace %v: the file has %q", replace, got)
		}
		for _, request := range f.Asked() {
			if strings.HasPrefix(request, "PUT") || strings.HasPrefix(request, "DELETE") {
				t.Errorf("replace %v: %s", replace, request)
			}
		}
	}
}
