//go:build unix

package interop

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An s3Server is versitygw with a bucket named "bucket".
type s3Server struct {
	haul   program // with the environment for the server
	url    string
	bucket string // the bucket's directory
	secret string
}

// serveS3 starts versitygw.
func serveS3(t *testing.T) *s3Server {
	t.Helper()
	gateway := find(t, "versitygw", "versitygw")
	dir := t.TempDir()
	s := &s3Server{bucket: filepath.Join(dir, "bucket"), secret: "s3cret-of-this-test"}
	if err := os.Mkdir(s.bucket, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s.url = "http://" + addr
	gateway.env = append(gateway.env, "ROOT_ACCESS_KEY=testkey", "ROOT_SECRET_KEY="+s.secret)
	gateway.start(t, "--port", addr, "posix", dir)
	awaitListener(t, addr)
	// The keys are in a file in the format of the AWS tools.
	keys := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(keys, []byte("[lab]\naws_access_key_id = testkey\naws_secret_access_key = "+s.secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.haul = haul(t)
	s.haul.env = append(s.haul.env, "AWS_ENDPOINT_URL="+s.url, "AWS_SHARED_CREDENTIALS_FILE="+keys, "AWS_PROFILE=lab",
		"AWS_CONFIG_FILE=/dev/null", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_REGION=us-east-1")
	return s
}

// awaitListener waits until a program accepts connections at an address.
func awaitListener(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(startPatience); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nobody listens: %v", err)
		}
	}
}

// Haul uploads a tree to a bucket, lists, describes, moves and removes its content, and downloads
// it again unchanged.
func TestS3Tree(t *testing.T) {
	s := serveS3(t)
	h, secret := s.haul, s.secret
	src, dst := t.TempDir(), t.TempDir()
	odd := "dir/a b+%#ü"
	files := map[string][]byte{"empty": nil, "small": content(10), odd: content(70_000), "dir/large": content(19<<20 + 1)}
	for name, b := range files {
		if err := os.MkdirAll(filepath.Join(src, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(src, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do(t, h, "put", "-r", "--verify", src+"/.", "s3://bucket/top/")
	if out := do(t, h, "put", "-r", "--unchanged=hash", src+"/.", "s3://bucket/top/"); !strings.Contains(out, "4 unchanged") {
		t.Errorf("the second put: %s", out)
	}
	if out := do(t, h, "ls", "-R", "s3://bucket/top"); !strings.Contains(out, "a b+%#ü") || !strings.Contains(out, "large") {
		t.Errorf("ls: %s", out)
	}
	if out := do(t, h, "probe", "s3://bucket/top/dir/large"); out != "19922945\n" {
		t.Errorf("probe: %s", out)
	}
	do(t, h, "mv", "s3://bucket/top/small", "s3://bucket/top/dir/")
	files["dir/small"] = files["small"]
	delete(files, "small")
	do(t, h, "get", "-r", "--verify", "s3://bucket/top/.", dst)
	for name, b := range files {
		wantFile(t, filepath.Join(dst, name), b)
	}
	if out := do(t, h, "get", "s3://bucket/top/empty", "-"); strings.Contains(out, "failed") {
		t.Errorf("get to standard output: %s", out)
	}
	do(t, h, "rm", "-r", "s3://bucket/top/dir")
	if out := do(t, h, "ls", "s3://bucket/top"); out != "empty\n" {
		t.Errorf("after rm -r: %s", out)
	}
	out, err := h.run(t.Context(), "stat", "s3://bucket/top/none")
	if err == nil || !strings.Contains(out, "s3://bucket/top/none") {
		t.Errorf("stat of what is missing: %v, %s", err, out)
	}
	h.env = append(h.env, "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PROFILE=", "AWS_ACCESS_KEY_ID=testkey", "AWS_SECRET_ACCESS_KEY="+secret+"x")
	out, err = h.run(t.Context(), "ls", "s3://bucket/")
	if err == nil || !strings.Contains(out, "secret key is wrong") || strings.Contains(out, secret) {
		t.Errorf("ls with a wrong key: %v, %s", err, out)
	}
}

// hasPart reports whether versitygw has a part of an upload.
func hasPart(bucket string) (has bool) {
	_ = filepath.WalkDir(filepath.Join(bucket, ".sgwtmp"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			fi, err := e.Info()
			has = has || err == nil && fi.Size() >= 8<<20
		}
		return nil
	})
	return has
}

// A killed upload leaves nothing under its name, and the next one resumes it.
func TestS3Kill(t *testing.T) {
	s := serveS3(t)
	h, bucket := s.haul, s.bucket
	local := filepath.Join(t.TempDir(), "f")
	want := content(48 << 20)
	if err := os.WriteFile(local, want, 0o644); err != nil {
		t.Fatal(err)
	}
	// The limit leaves time for the kill: the whole upload would take 12 s.
	d := h.start(t, "put", "--continue", "--limit", "4MB", local, "s3://bucket/f")
	for end := time.Now().Add(startPatience); !hasPart(bucket); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no part has come")
		}
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.done
	if out, err := h.run(t.Context(), "stat", "s3://bucket/f"); err == nil {
		t.Fatalf("it is there: %s", out)
	}
	out := do(t, h, "put", "--continue", local, "s3://bucket/f")
	if !strings.Contains(out, "were there before") {
		t.Errorf("it was not resumed: %s", out)
	}
	back := filepath.Join(t.TempDir(), "back")
	do(t, h, "get", "s3://bucket/f", back)
	wantFile(t, back, want)
}
