//go:build linux

package interop

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The build for 32-bit ARM serves and fetches over all protocols. On this processor the compiler
// aligns 64-bit numbers to 4 bytes, and Go ends a program that atomically uses one that is not
// aligned to 8.
func TestARM(t *testing.T) {
	t.Parallel()
	qemu := find(t, "qemu-user", "qemu-arm")
	binary := filepath.Join(t.TempDir(), "haul")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", binary, "../cmd/haul")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm", "GOARM=6")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	arm := qemu
	arm.args = []string{binary}

	dir, local, large := realDir(t), t.TempDir(), content(3<<20+7)
	l, d := beginSFTPBy(t, arm, dir, "--users", usersFile(t), "--upload", "create", "--tftp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	metrics := d.ready(t, regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`))[0]
	file := write(t, filepath.Join(local, "file"), large)
	for _, root := range []string{"tftp://" + d.ready(t, listening)[1], d.ready(t, urlSaid)[1], "server:"} {
		var login []string
		if root == "server:" {
			login = []string{"--batch", "-F", l.sshConfig(t)}
		}
		do(t, arm, slices.Concat([]string{"put"}, login, []string{file, root + "/by-arm"})...)
		do(t, haul(t), slices.Concat([]string{"put"}, login, []string{file, root + "/to-arm"})...)
		for _, name := range []string{"by-arm", "to-arm"} {
			wantFile(t, filepath.Join(dir, name), large)
			got := filepath.Join(local, name)
			do(t, arm, slices.Concat([]string{"get"}, login, []string{root + "/" + name, got})...)
			wantFile(t, got, large)
			if err := errors.Join(os.Remove(got), os.Remove(filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	do(t, arm, "get", metrics, filepath.Join(local, "metrics"))
	if b, err := os.ReadFile(filepath.Join(local, "metrics")); err != nil || !strings.Contains(string(b), `haul_bytes_total{direction="write",protocol="tftp"} `+strconv.FormatFloat(float64(2*len(large)), 'g', -1, 64)) {
		t.Errorf("the metrics lack the bytes of uploads: %v\n%s", err, b)
	}
	if err := d.stop(); err != nil {
		t.Errorf("haul serve, told to end: %v", err)
	}
}
