package serve

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/site"
)

// Boot clients get the files of the directory, then those of its folder ipxe and of the
// directory for boot files, and the scripts that haul makes. Each file that one opens is
// reported.
func TestBootFiles(t *testing.T) {
	dir, loaders := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "snponly.efi"), "of the directory")
	for _, name := range []string{"snponly.efi", "ipxe.efi"} {
		write(filepath.Join(dir, "ipxe", name), "of its folder")
		write(filepath.Join(loaders, name), "of the others")
	}
	write(filepath.Join(loaders, "undionly.kpxe"), "of the others")

	var opened []string
	cfg := Default()
	cfg.Dirs, cfg.Boot.Answer, cfg.Boot.LoaderDir = []string{dir}, true, loaders
	cfg.requested = func(_ site.Client, name string) { opened = append(opened, name) }
	files, err := cfg.openPublicFiles(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.close()
	read := func(name string) string {
		t.Helper()
		f, err := files.site.Open(t.Context(), site.Client{}, name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, want := range map[string]string{"snponly.efi": "of the directory", "ipxe.efi": "of its folder", "undionly.kpxe": "of the others", "boot.ipxe": "#!ipxe"} {
		if got := read(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := files.site.Open(t.Context(), site.Client{}, "none"); err == nil || len(opened) != 4 {
		t.Errorf("%v; these are reported as opened: %q", err, opened)
	}
	write(filepath.Join(dir, "boot.ipxe"), "#!ipxe\n# own\n")
	if got := read("boot.ipxe"); !strings.Contains(got, "own") {
		t.Errorf("the directory's own script is not used, but %q", got)
	}

	cfg.Boot.LoaderDir = filepath.Join(loaders, "none")
	if _, err := cfg.openPublicFiles(nil); err == nil || !strings.Contains(err.Error(), cfg.Boot.LoaderDir) {
		t.Errorf("a directory for boot files that is not there: %v", err)
	}
}

// Clients that have to log in by HTTP get no boot files there.
func TestServesBootHTTP(t *testing.T) {
	cfg := Default()
	if cfg.HTTP.Listen = []string{":80"}; !cfg.servesBootHTTP() {
		t.Error("HTTP is not used")
	}
	if cfg.HTTP.Users = "users"; cfg.servesBootHTTP() {
		t.Error("HTTP is used, which asks for passwords")
	}
}
