//go:build linux

package interop

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// packageTargets are the systems for which packages are made here. "make cross" builds for all
// systems; the content of an archive does not affect how it is made.
var packageTargets = []string{"linux/" + runtime.GOARCH, "linux/arm", "darwin/arm64", "windows/amd64"}

// makePackages makes the packages of a version in a copy of the tree, and returns their
// directory. environment is that of the build, which must not affect the result.
func makePackages(version string, environment ...string) (string, error) {
	tree, err := os.MkdirTemp(temp, "tree-")
	if err != nil {
		return "", err
	}
	script := fmt.Sprintf(`set -e; umask "${UMASK:-022}"; tree=$(pwd)
		tar -C .. --exclude=./bin --exclude=./.git --exclude=./bench --exclude=./interop -c . | tar -C %[1]s -x
		cd %[1]s
		for t in %[2]s; do mkdir -p "bin/${t%%/*}-${t#*/}"; done
		for f in bin/linux-arm/haul bin/darwin-arm64/haul bin/windows-amd64/haul.exe; do echo "of another system" >$f; done
		make -s man binaries TARGETS=linux/%[3]s VERSION=%[4]s
		GO=go TARGETS='%[2]s' VERSION=%[4]s scripts/packages`, tree, strings.Join(packageTargets, " "), runtime.GOARCH, version)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000"), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the packages: %w\n%s", err, out)
	}
	return filepath.Join(tree, "bin/packages"), nil
}

var (
	firstPackages  = sync.OnceValues(func() (string, error) { return makePackages("v1.0.0") })
	secondPackages = sync.OnceValues(func() (string, error) { return makePackages("v1.1.0-rc.1") })
)

// packages returns the directory of packages from made.
func packages(t *testing.T, made func() (string, error)) string {
	t.Helper()
	for _, tool := range []string{"make", "dpkg-deb", "zip"} {
		if _, err := exec.LookPath(tool); err != nil {
			absent(t, "packages are made with %s: %v", tool, err)
		}
	}
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// debOf returns the package for this machine.
func debOf(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "haul_*_"+runtime.GOARCH+".deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("packages for this machine: %q, %v", found, err)
	}
	return found[0]
}

// Another build, at another place and time, makes the same bytes. The list of checksums is right,
// and both haul and sha256sum can read it.
func TestPackagesSameBytes(t *testing.T) {
	t.Parallel()
	first := packages(t, firstPackages)
	second, err := makePackages("v1.0.0", "TZ=Pacific/Auckland", "LC_ALL=C.UTF-8", "LANG=de_DE.UTF-8", "GZIP_OPT=-1", "HOME="+t.TempDir(),
		"GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "UMASK=077", "GOFLAGS=-tags=haul_portable")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		a, errA := os.ReadFile(filepath.Join(first, e.Name()))
		b, errB := os.ReadFile(filepath.Join(second, e.Name()))
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs from what another builder makes: %v, %d and %d bytes", e.Name(), err, len(a), len(b))
		}
	}
	want := []string{"SHA256SUMS"}
	for _, target := range packageTargets {
		system, arch, _ := strings.Cut(target, "/")
		ending := "tar.gz"
		if system == "windows" {
			ending = "zip"
		}
		want = append(want, fmt.Sprintf("haul-v1.0.0-%s-%s.%s", system, arch, ending))
		if system == "linux" {
			want = append(want, "haul_1.0.0_"+strings.Replace(arch+".deb", "arm.", "armhf.", 1))
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the packages are %q, want %q", names, want)
	}
	for _, check := range []string{`"$0" sum --check SHA256SUMS`, "sha256sum --strict --check SHA256SUMS"} {
		cmd := exec.Command("sh", "-c", check, haul(t).path)
		cmd.Dir = first
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK\n")) != len(want)-1 {
			t.Errorf("%s: %v\n%s", check, err, out)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// An archive contains the program, its manual, the completions, and the licences of everything
// linked into it. All files belong to root, and everybody can read them.
func TestPackageArchive(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join(packages(t, firstPackages), "haul-v1.0.0-linux-"+runtime.GOARCH+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, inside := strings.CutPrefix(h.Name, "haul-v1.0.0-linux-"+runtime.GOARCH+"/")
		if want := int64(0o644); !inside || h.Uid != 0 || h.Gid != 0 || h.Mode&0o777 != want && h.Mode&0o777 != 0o755 || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s: owner %d:%d, mode %o, time %v", h.Name, h.Uid, h.Gid, h.Mode, h.ModTime)
		}
		if files[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"docs/guide.md", "man/man1/haul-serve.1", "completions/haul.bash", "completions/_haul", "packaging/systemd/haul.service", "LICENSE"} {
		if len(files[name]) == 0 {
			t.Errorf("no %s", name)
		}
	}
	binary := filepath.Join(t.TempDir(), "haul")
	if err := os.WriteFile(binary, files["haul"], 0o755); err != nil {
		t.Fatal(err)
	}
	if out := do(t, program{path: binary}, "--version"); !strings.Contains(out, "v1.0.0") {
		t.Errorf("haul --version: %s", out)
	}
	modules, err := exec.Command("go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	licences, linked := string(files["THIRD-PARTY.txt"]), 0
	for line := range strings.Lines(string(modules)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
			linked++
			_, after, found := strings.Cut(licences, "\n=== "+fields[1]+" "+fields[2]+"\n")
			text, _, _ := strings.Cut(after, "\n=== ")
			if !found || len(text) < 500 {
				t.Errorf("THIRD-PARTY.txt has no licence of %s %s, but %q", fields[1], fields[2], text)
			}
		}
	}
	if linked < 10 || !strings.Contains(licences, "The Go Authors") {
		t.Errorf("the binary has %d modules, and THIRD-PARTY.txt the licence of Go: %t", linked, strings.Contains(licences, "The Go Authors"))
	}
}

// Debian's own checker reports nothing.
func TestPackageLintian(t *testing.T) {
	t.Parallel()
	lintian := find(t, "lintian", "lintian")
	if base := peerDir(t, "lintian"); strings.HasPrefix(lintian.path, base+"/") {
		modules, _ := filepath.Glob(base + "/usr/lib/*/perl5/*") // the pattern is valid
		modules = append(modules, base+"/usr/share/perl5")
		lintian.env = append(lintian.env, "PERL5LIB="+strings.Join(modules, ":"), "PATH="+base+"/usr/bin:"+os.Getenv("PATH"))
	}
	out, err := lintian.run(t.Context(), "--no-cfg", "--allow-root", "--pedantic", "--display-info", "--fail-on", "error,warning,info,pedantic", debOf(t, packages(t, firstPackages)))
	if err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}
