//go:build linux

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/s3test"
)

// fetchers return functions that get a whole file by one protocol, or return the part before an
// error. An SFTP connection handles one call at a time.
func (s *sourceServer) fetchers() map[string]func(name string) (string, error) {
	// With keep-alives, the client would repeat a request if the kept connection were lost.
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	all := map[string]func(string) (string, error){
		"http": func(name string) (string, error) {
			a, err := once.Get(s.http + "/" + url.PathEscape(name))
			if err != nil {
				return "", err
			}
			defer a.Body.Close()
			got, err := io.ReadAll(a.Body)
			if a.StatusCode != http.StatusOK {
				return "", fmt.Errorf("status %s: %s", a.Status, got)
			}
			return string(got), err
		},
		"tftp": func(name string) (string, error) { return s.fetch(url.PathEscape(name)) },
	}
	if !strings.Contains(s.log.String(), " on sftp://") {
		return all
	}
	files := s.login().Store("")
	all["sftp"] = func(name string) (string, error) {
		f, err := files.Open(s.t.Context(), name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
		return string(got), err
	}
	return all
}

// metric returns the sum of the metrics whose beginnings match an expression.
func (s *sourceServer) metric(expr string) (sum float64) {
	s.t.Helper()
	_, page := s.at(s.word(`metrics at (\S+)`))
	found := regexp.MustCompile(`(?m)^haul_`+expr+` (\S+)$`).FindAllStringSubmatch(page, -1)
	if found == nil {
		s.t.Errorf("there is no %s in the metrics:\n%s", expr, page)
	}
	for _, m := range found {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			s.t.Error(err)
		}
		sum += n
	}
	return sum
}

// bucketHome returns a home directory with the keys for a bucket.
func bucketHome(t *testing.T, id string) string {
	t.Helper()
	home := t.TempDir()
	servetest.WriteFile(t, filepath.Join(home, ".aws/credentials"), "[default]\naws_access_key_id = "+id+"\naws_secret_access_key = secret\n")
	return home
}

func bucketEnv(b *servetest.Bucket) []string {
	return []string{"AWS_ENDPOINT_URL=" + b.URL, "AWS_REGION=us-east-1", "AWS_PROFILE=", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_CONFIG_FILE=", "AWS_SHARED_CREDENTIALS_FILE="}
}

// An answer is an answer of the bucket that is changed on its way.
type answer struct {
	http.ResponseWriter
	header func(h http.Header)
	pause  time.Duration // pause before each piece
	left   int64         // bytes still to be sent before end is called
	end    func()        // may be nil
}

func (a *answer) WriteHeader(status int) {
	if a.header != nil {
		a.header(a.Header())
	}
	if n, _ := strconv.ParseInt(a.Header().Get("Content-Length"), 10, 64); n > 4<<10 {
		a.left = n / 2
	} else {
		a.end = nil // a small piece, so that a file has an end
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	time.Sleep(a.pause)
	if a.end == nil || int64(len(p)) <= a.left {
		a.left -= int64(len(p))
		return a.ResponseWriter.Write(p)
	}
	_, _ = a.ResponseWriter.Write(p[:a.left])
	_ = http.NewResponseController(a.ResponseWriter).Flush() // otherwise none of it might arrive
	a.end()
	return 0, io.ErrShortWrite
}

func abort() { panic(http.ErrAbortHandler) }

// refusing answers with an S3 error. If times is above 0, it does so only for that many requests
// for the content.
func refusing(times int64, status int, code string, header ...string) servetest.Fault {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
		if times > 0 && (r.Method == http.MethodHead || asked.Add(1) > times) {
			server(w, r)
			return
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		s3test.Refuse(w, r, status, code)
	}
}

// sourceFaults are possible faults of an object in a bucket. If said is "", clients still get all
// of it; otherwise the log contains said.
var sourceFaults = []struct {
	name, said string
	fault      func(b *servetest.Bucket, key string) servetest.Fault
}{
	{"slow", "", func(*servetest.Bucket, string) servetest.Fault {
		return func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
			server(&answer{ResponseWriter: w, pause: 10 * time.Millisecond}, r)
		}
	}},
	{"cut", "", func(*servetest.Bucket, string) servetest.Fault {
		return func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
			server(&answer{ResponseWriter: w, end: abort}, r)
		}
	}},
	{"fails-once", "", func(*servetest.Bucket, string) servetest.Fault { return refusing(1, 500, "InternalError") }},
	{"busy-once", "", func(*servetest.Bucket, string) servetest.Fault {
		return refusing(1, 503, "SlowDown", "Retry-After", "1")
	}},
	{"fails", "500", func(*servetest.Bucket, string) servetest.Fault { return refusing(0, 500, "InternalError") }},
	{"busy", "come again in 2h46m39s", func(*servetest.Bucket, string) servetest.Fault {
		return refusing(0, 503, "SlowDown", "Retry-After", "9999")
	}},
	{"hangs", "no answer in time", func(*servetest.Bucket, string) servetest.Fault {
		return func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { <-r.Context().Done() }
	}},
	{"hangs-in-the-middle", "nothing has come for too long", func(b *servetest.Bucket, key string) servetest.Fault {
		return func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
			hang := func() { <-r.Context().Done() }
			if r.Method == http.MethodGet && b.Sent(key) > 500_000 {
				hang()
				return
			}
			server(&answer{ResponseWriter: w, end: hang}, r)
		}
	}},
	{"wrong-length", "the S3 server's answer is not right", func(*servetest.Bucket, string) servetest.Fault {
		return func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
			server(&answer{ResponseWriter: w, header: func(h http.Header) {
				if r.Method == http.MethodGet {
					h.Set("Content-Length", "9")
				}
			}}, r)
		}
	}},
	{"replaced", "replaced or changed", func(b *servetest.Bucket, key string) servetest.Fault {
		return func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
			server(&answer{ResponseWriter: w, end: func() {
				b.Break(key, nil)
				b.Put(key, strings.Repeat("another", 1<<18))
				abort()
			}}, r)
		}
	}},
	{"clock", "set this machine's clock, which is 20m", func(*servetest.Bucket, string) servetest.Fault {
		return refusing(0, 403, "RequestTimeTooSkewed", "Date", time.Now().Add(-20*time.Minute).UTC().Format(http.TimeFormat))
	}},
	{"expired", "get new ones", func(*servetest.Bucket, string) servetest.Fault { return refusing(0, 400, "ExpiredToken") }},
}

// A fault of a bucket costs time, or causes an error that the log explains, but never a wrong byte,
// with a cache and without.
func TestServeBucketFaults(t *testing.T) {
	for _, cached := range []bool{false, true} {
		t.Run(fmt.Sprintf("cached=%v", cached), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			b, cacheDir := servetest.NewBucket(t), ""
			if cached {
				cacheDir = filepath.Join(t.TempDir(), "cache")
			}
			s := startSourceServer(t, "s3://bucket/", bucketHome(t, "id"), cacheDir, append(bucketEnv(b), patienceVar+"=5s")...)
			var clients sync.WaitGroup
			for _, f := range sourceFaults {
				for protocol, get := range s.fetchers() {
					key := f.name + "." + protocol
					content := strings.Repeat(key+"\n", 1_500_000/len(key))
					b.Put(key, content)
					b.Break(key, f.fault(b, key))
					clients.Go(func() {
						got, err := get(key)
						switch {
						case !strings.HasPrefix(content, got):
							t.Errorf("%s: a byte is wrong", key)
						case f.said == "" && (err != nil || len(got) != len(content)):
							t.Errorf("%s: %d bytes of %d, %v", key, len(got), len(content), err)
						case f.said != "" && err == nil:
							t.Errorf("%s: no error after %d bytes of %d", key, len(got), len(content))
						}
					})
				}
			}
			clients.Wait()
			s.wantFaults(cached)
		})
	}
}

// wantFaults checks the log and the metrics for the faults.
func (s *sourceServer) wantFaults(cached bool) {
	failed := 0
	for _, f := range sourceFaults {
		if f.said == "" {
			continue
		}
		failed++
		for _, protocol := range []string{"http", "tftp", "sftp"} {
			line := regexp.MustCompile(fmt.Sprintf(`level=WARN msg=%s result=(?:failed|refused) .*file=/?%s\.%[1]s .*error=".*%s`, protocol, f.name, f.said))
			servetest.Eventually(s.t, fmt.Sprintf("the log of %s has %q of %s", protocol, f.said, f.name), func() bool { return line.MatchString(s.log.String()) })
		}
	}
	for _, text := range []string{"source: a request is sent again", "source: cannot be reached"} {
		if strings.Count(s.log.String(), text) != 1 {
			s.t.Errorf("the log has %q not once", text)
		}
	}
	for _, protocol := range []string{"http", "tftp"} { // SFTP counts files that were opened
		if n := s.metric(`transfers_total\{direction="read",protocol="` + protocol + `",result="(?:failed|refused)"\}`); n < float64(failed) {
			s.t.Errorf("%v failed transfers of %s, want %d", n, protocol, failed)
		}
	}
	if n := s.metric("source_failures_total"); n < float64(3*failed) {
		s.t.Errorf("%v failures, want %d", n, 3*failed)
	}
	if n := s.metric("source_repeats_total"); n < 9 {
		s.t.Errorf("%v requests were sent again", n)
	}
	if cached && s.metric("cache_fetch_errors_total") == 0 {
		s.t.Error("no errors of the cache's fetches")
	}
}

// Expired keys are read again from their origin, by a confined process.
func TestServeBucketKeys(t *testing.T) {
	b, home := servetest.NewBucket(t), bucketHome(t, "old")
	b.Put("f", "content")
	b.Break("f", func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=old/") {
			s3test.Refuse(w, r, 400, "ExpiredToken")
			return
		}
		server(w, r)
	})
	s := startSourceServer(t, "s3://bucket/", home, "", bucketEnv(b)...)
	s.want("GET", "/f", "", http.StatusBadGateway, "*")
	if err := os.Rename(filepath.Join(bucketHome(t, "new"), ".aws/credentials"), filepath.Join(home, ".aws/credentials")); err != nil {
		t.Fatal(err)
	}
	servetest.Eventually(t, "the new keys are used", func() bool {
		_, got := s.ask("GET", "/f", "")
		return got == "content"
	})
	if text := s.log.String(); strings.Contains(text, "secret") || !strings.Contains(text, "get new ones") {
		t.Errorf("the log has %s", text)
	}
}

// hugeContent has any size.
type hugeContent struct{}

func (hugeContent) ReadAt(p []byte, off int64) (int, error) {
	copy(p, hugePart(off, len(p)))
	return len(p), nil
}

func hugePart(off int64, n int) string {
	var b strings.Builder
	for at := off / 16; b.Len() < n+16; at++ {
		fmt.Fprintf(&b, "%016x", at)
	}
	return b.String()[off%16:][:n]
}

// Empty files and files of 100 GB are served, the latter in parts, and files with odd names as
// well. Objects whose keys are not valid names do not appear in listings.
func TestServeBucketOdd(t *testing.T) {
	odd := []string{"a b", "a+b", "a%2Fb", "ü", "日本", "a:b", "a\"b<>&'", "~", "-", "a\tb", "a..", "a\nb", "\x01", "a;b?c#d", strings.Repeat("x", 255)}
	const size = 100 << 30
	for _, cacheDir := range []string{"", filepath.Join(t.TempDir(), "cache")} {
		b := servetest.NewBucket(t)
		b.Put("empty", "")
		for _, name := range odd {
			b.Put(name, "content of "+name)
		}
		for _, key := range []string{"a//b", "../x", "/lead", "..", ".", "d/../y", "d//z", "a\x00b"} {
			b.Put(key, "hostile")
		}
		b.PutObject("huge", s3test.Object{Content: hugeContent{}, Size: size, ETag: "0123456789abcdef0123456789abcdef-2"})
		s := startSourceServer(t, "s3://bucket/", bucketHome(t, "id"), cacheDir, bucketEnv(b)...)
		for protocol, get := range s.fetchers() {
			if got, err := get("empty"); got != "" || err != nil {
				t.Errorf("%s: no bytes: %q, %v", protocol, got, err)
			}
			for _, name := range odd {
				if got, err := get(name); got != "content of "+name || err != nil {
					t.Errorf("%s: %q: %q, %v", protocol, name, got, err)
				}
			}
			for _, name := range []string{"a//b", "../x", "/lead", "d/../y", "d//z", "a\x00b"} {
				if got, err := get(name); err == nil && strings.Contains(got, "hostile") {
					t.Errorf("%s: %q is served", protocol, name)
				}
			}
		}
		files := s.login().Store("")
		huge, err := files.Open(t.Context(), "huge")
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range []int64{0, size/2 + 5, size - 1000} {
			want := hugePart(off, 1000)
			s.want("GET", "/huge", "", 206, want, "Range", fmt.Sprintf("bytes=%d-%d", off, off+999))
			p := make([]byte, 1000)
			if _, err := huge.ReadAt(p, off); err != nil && err != io.EOF || !bytes.Equal(p, []byte(want)) {
				t.Errorf("at %d over SFTP: %v", off, err)
			}
		}
		if n := b.Sent("huge"); n > 64<<20 {
			t.Errorf("%d bytes were fetched for 6000", n)
		}
		list, err := files.ReadDir(t.Context(), ".")
		if err != nil {
			t.Fatal(err)
		}
		if want := len(odd) + 4; len(list) != want { // with "a", "d", "empty" and "huge"
			t.Errorf("the listing has %v, want %d names", list, want)
		}
	}
}

// Files of this machine are served while more requests than an upstream may have hang there. Those
// end when the upstream answers.
func TestServeHangingSource(t *testing.T) {
	b, local := servetest.NewBucket(t), t.TempDir()
	servetest.WriteFile(t, filepath.Join(local, "here"), "on this machine")
	release := make(chan struct{})
	var hanging atomic.Int64
	const requests = 300
	for i := range requests {
		key := fmt.Sprint("there", i)
		b.Put(key, key)
		b.Break(key, func(w http.ResponseWriter, r *http.Request, server http.HandlerFunc) {
			hanging.Add(1)
			<-release
			server(w, r)
		})
	}
	s := startSourceServer(t, local+",s3://bucket/", bucketHome(t, "id"), "", append(bucketEnv(b), patienceVar+"=1m")...)
	get := s.fetchers()
	var clients sync.WaitGroup
	for i := range requests {
		protocol := []string{"http", "tftp"}[i%2]
		clients.Go(func() {
			key := fmt.Sprint("there", i)
			got, err := get[protocol](key)
			if err == nil && got != key || protocol == "http" && err != nil { // clients of TFTP may give up
				t.Errorf("%s over %s: %q, %v", key, protocol, got, err)
			}
		})
	}
	servetest.Eventually(t, "the source has all requests that it may have", func() bool { return hanging.Load() == 256 })
	for range 20 {
		for protocol, get := range get {
			if got, err := get("here"); err != nil || got != "on this machine" {
				t.Errorf("over %s, while the source hangs: %q, %v", protocol, got, err)
			}
		}
	}
	if n := hanging.Load(); n != 256 {
		t.Errorf("%d requests hang, want 256", n)
	}
	close(release)
	clients.Wait()
}

// A directory of 100,000 names is listed over HTTP and SFTP, page by page.
func TestServeBucketManyNames(t *testing.T) {
	names := 100_000
	if race.Enabled { // the race detector is slow
		names = 5000
	}
	b := servetest.NewBucket(t)
	for i := range names {
		b.Put(fmt.Sprintf("many/%06d", i), "")
	}
	s := startSourceServer(t, "s3://bucket/", bucketHome(t, "id"), "", bucketEnv(b)...)
	before := s.memory()
	entries, err := s.login().Store("").OpenDir(t.Context(), "many")
	if err != nil {
		t.Fatal(err)
	}
	defer entries.Close()
	seen := map[string]bool{}
	into := make([]fs.FileInfo, 1000)
	for err == nil {
		var n int
		n, err = entries.Next(into)
		for _, fi := range into[:n] {
			seen[fi.Name()] = true
		}
	}
	if err != io.EOF || len(seen) != names {
		t.Errorf("%d names over SFTP, %v", len(seen), err)
	}
	a, list := s.ask("GET", "/many/?list", "", "Accept", "application/json")
	if n := strings.Count(list, `"name":`); a.StatusCode != 200 || n != names {
		t.Errorf("over HTTP: %s, %d names", a.Status, n)
	}
	if n := s.memory(); !race.Enabled && n > before+192<<10 {
		t.Errorf("the process had up to %d KiB of memory before, and %d then", before, n)
	}
}

// memory returns the peak memory of the process, in KiB.
func (s *sourceServer) memory() (n int) {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &n); err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%d KiB", n)
	return n
}

// A cache whose disk is full or fails, or has altered stored data, costs fetches and log lines, but
// never a wrong byte.
func TestServeCacheFaults(t *testing.T) {
	b := servetest.NewBucket(t)
	content := strings.Repeat("0123456789abcdef", 3<<16) // 3 blocks
	b.Put("f", content)
	home, dir := bucketHome(t, "id"), t.TempDir()
	// served serves the file by all protocols, and checks the log.
	served := func(t *testing.T, before func(s *sourceServer), said ...string) *sourceServer {
		s := startSourceServer(t, "s3://bucket/", home, dir, bucketEnv(b)...)
		before(s)
		for protocol, get := range s.fetchers() {
			if got, err := get("f"); err != nil || got != content {
				t.Errorf("over %s: %d bytes, or others, %v", protocol, len(got), err)
			}
		}
		for _, text := range said {
			if !strings.Contains(s.log.String(), text) {
				t.Errorf("the log has no %q", text)
			}
		}
		return s
	}
	block := func(index int) string {
		found, _ := filepath.Glob(filepath.Join(dir, "objects", "*", fmt.Sprint(index, "-*")))
		if len(found) != 1 {
			return ""
		}
		return found[0]
	}
	t.Run("full", func(t *testing.T) {
		if err := unix.Mount("haul-test", dir, "tmpfs", 0, "size=1m"); err != nil {
			t.Skipf("no file system to fill: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		s := served(t, func(*sourceServer) {}, "a block cannot be stored in the cache: it is served from memory", "no space left")
		if s.metric("cache_disk_errors_total") == 0 {
			t.Error("no errors of the disk are counted")
		}
	})
	t.Run("whole", func(t *testing.T) {
		served(t, func(*sourceServer) {})
		servetest.Eventually(t, "all is stored", func() bool { return block(0) != "" && block(1) != "" && block(2) != "" })
	})
	if changed, err := os.ReadFile(block(0)); err != nil {
		t.Fatal(err)
	} else if changed[1000] ^= 1; os.WriteFile(block(0), changed, 0o600) != nil {
		t.Fatal("the block cannot be changed")
	}
	t.Run("changed", func(t *testing.T) {
		s := served(t, func(*sourceServer) {
			name := block(1) // a directory instead of a file simulates a disk that fails
			if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
				t.Error(err)
			}
		}, "a block in the cache is corrupt, and is fetched again", "a block in the cache cannot be read, and is fetched again")
		if s.metric("cache_corrupt_total") == 0 || s.metric("cache_disk_errors_total") == 0 {
			t.Error("they are not counted")
		}
	})
}
