package proxydhcp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/bootmenu"
	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// The menu is generated from the files, and generated again when it is old.
func TestScripts(t *testing.T) {
	ctx := context.Background()
	files := store.Mem(0)
	put := func(name, text string) {
		t.Helper()
		u, err := files.Create(ctx, name, store.Create{Parents: true})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if _, err := u.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	put("debian/linux", "kernel")
	put("debian/initrd.gz", "initrd")
	made := &scripts{files: files, standard: "debian"}
	read := func(name string) string {
		t.Helper()
		f, err := made.Open(ctx, name)
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
	first := read(pxe.ScriptName)
	if !strings.HasPrefix(first, "#!ipxe\n") || !strings.Contains(first, "kernel /debian/linux") || !strings.Contains(first, "choose --default entry0 chosen") {
		t.Errorf("the menu is\n%s", first)
	}
	put("loader/entries/own.conf", "title Own\nlinux /debian/linux\n")
	made.at = time.Now().Add(time.Hour)
	if read(pxe.ScriptName) != first {
		t.Error("the menu is made anew for each client")
	}
	made.at = time.Now().Add(-scriptsHold)
	if second := read(pxe.ScriptName); !strings.Contains(second, "item entry0 Own") {
		t.Errorf("with an entry the menu is\n%s", second)
	}
	if menu := read(bootmenu.GRUBName); !strings.Contains(menu, "menuentry 'Own'") || !strings.Contains(menu, "linux '/debian/linux'") {
		t.Errorf("for GRUB the menu is\n%s", menu)
	}
	if !strings.Contains(read(bootmenu.AutoexecName), "dhcp") {
		t.Error("autoexec.ipxe has no dhcp")
	}
	for _, name := range []string{".", "other", "debian/linux"} {
		if _, err := made.Stat(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: %v", name, err)
		}
	}
}

// Clients with their own files get the boot files of the settings, and GRUB from the directory of
// each, where shim looks for it. They get no other common file.
func TestOwnBootFiles(t *testing.T) {
	own, common := store.Store(store.Mem(0)), store.Store(store.Mem(0))
	names := []string{"undionly.kpxe", "grubx64.efi", "debian/shimx64.efi", "debian/grubx64.efi", "fedora/shimaa64.efi", "fedora/grubaa64.efi"}
	for _, name := range append(names, "secret", "debian/secret", "other/grubx64.efi") {
		storetest.Put(t, common, name, "")
	}
	s := Settings{
		Files: map[pxe.Arch]string{pxe.X64: "debian/shimx64.efi"},
		Hosts: map[dhcp.MAC]pxe.Host{RandomMAC(): {File: "fedora/shimaa64.efi"}, RandomMAC(): {Ignore: true}},
	}
	s.AddFiles([]*store.Store{&own, &common}, nil)
	for _, name := range names {
		if _, err := own.Stat(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"secret", "debian/secret", "other/grubx64.efi"} {
		if _, err := own.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b := s.bootFiles(common).(*bootFiles); b.names[""] {
		t.Error("a machine that is left alone adds the empty name")
	}
}

// dutiful is a store that fails once the context of a client is cancelled.
type dutiful struct{ store.Tree }

func (d dutiful) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return d.Tree.ReadDir(ctx, name)
}

// A client that leaves while the menu is made does not cause an empty menu for the others.
func TestScriptOfClientThatLeaves(t *testing.T) {
	files := store.Mem(0)
	storetest.Put(t, files, "linux", "kernel")
	storetest.Put(t, files, "initrd.gz", "initrd")
	left, leave := context.WithCancel(t.Context())
	leave()
	made := &scripts{files: dutiful{files}}
	if menu := string(made.menu(left, pxe.ScriptName)); !strings.Contains(menu, "kernel /linux") {
		t.Errorf("the menu is\n%s", menu)
	}
}

// absent is a store whose directories cannot be read for a while.
type absent struct {
	store.Tree
	gone bool
}

func (a *absent) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if a.gone {
		return nil, store.ErrUnavailable
	}
	return a.Tree.ReadDir(ctx, name)
}

// While files cannot be read, clients get the menu from before. Without files it is empty.
func TestMenuOfFilesThatAreAway(t *testing.T) {
	files := &absent{Tree: store.Mem(0)}
	storetest.Put(t, files, "linux", "kernel")
	storetest.Put(t, files, "initrd.gz", "initrd")
	made := &scripts{files: files}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"at first", func() {}, true},
		{"when the files are away", func() { files.gone = true }, true},
		{"when the files are back", func() { files.gone = false }, true},
		{"when the files are gone", func() { files.Tree = store.Mem(0) }, false},
	} {
		step.do()
		made.at = time.Now().Add(-scriptsHold)
		if menu := string(made.menu(t.Context(), pxe.ScriptName)); strings.Contains(menu, "kernel /linux") != step.want {
			t.Errorf("%s the menu is\n%s", step.what, menu)
		}
	}
}
