package publicfiles

import (
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
)

// Boot clients get the files of the directory, then those of its folder ipxe and of the directory
// for boot files, and the scripts that haul generates. Each file that a client opens is reported.
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

	lab := t.TempDir()
	for _, name := range []string{"linux", "initrd"} {
		write(filepath.Join(lab, "suse", name), "of the lab")
		write(filepath.Join(dir, "debian", name), "of the directory")
	}

	var opened []string
	cfg := settings.Default()
	cfg.Files.Roots = []settings.Root{{For: site.Match{Nets: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}}, Dir: lab}}
	cfg.Boot.Hosts = map[dhcp.MAC]pxe.Host{dhcp.MakeMAC([]byte{2, 0, 0, 0, 0, 1}): {File: "debian/linux"}}
	cfg.Dirs, cfg.Boot.Answer, cfg.Boot.LoaderDir = []string{dir}, true, loaders
	env := &service.Env{Requested: func(_ site.Client, name string) { opened = append(opened, name) }}
	files, err := Open(&cfg, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	client := site.Client{}
	read := func(name string) string {
		t.Helper()
		f, err := files.Site.Open(t.Context(), client, name)
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
	if _, err := files.Site.Open(t.Context(), site.Client{}, "none"); err == nil || len(opened) != 4 {
		t.Errorf("%v; these are reported as opened: %q", err, opened)
	}
	write(filepath.Join(dir, "boot.ipxe"), "#!ipxe\n# own\n")
	if got := read("boot.ipxe"); !strings.Contains(got, "own") {
		t.Errorf("the directory's own script is not used, but %q", got)
	}

	// A client with another directory gets the boot files, which offers name, and a menu of its
	// own, but nothing else from the first directory.
	client.Peer = netip.MustParseAddr("192.0.2.7")
	for name, want := range map[string]string{"snponly.efi": "of the directory", "undionly.kpxe": "of the others", "debian/linux": "of the directory", "suse/linux": "of the lab"} {
		if got := read(name); got != want {
			t.Errorf("another directory: %s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"boot.ipxe", "grub/grub.cfg"} {
		if menu := read(name); !strings.Contains(menu, "/suse/linux") || strings.Contains(menu, "debian/linux") {
			t.Errorf("another directory: %s is\n%s", name, menu)
		}
	}
	if _, err := files.Site.Open(t.Context(), client, "debian/initrd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another directory: a file of the first one: %v", err)
	}

	cfg.Boot.LoaderDir = filepath.Join(loaders, "none")
	if _, err := Open(&cfg, env, nil); err == nil || !strings.Contains(err.Error(), cfg.Boot.LoaderDir) {
		t.Errorf("a directory for boot files that is not there: %v", err)
	}
}
