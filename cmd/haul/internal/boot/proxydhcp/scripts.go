package proxydhcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/bootmenu"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/store"
)

const (
	// scriptsHold is how long a generated script is kept. After that it is generated again, so the
	// menu shows new entries.
	scriptsHold = 2 * time.Second

	// menuTime limits the time to read the files for a menu.
	menuTime = 10 * time.Second
)

// AddFiles adds to each served store the other files that boot clients need: boot files from
// loaders, and scripts that are generated from the store's own files, namely the menus for iPXE and
// GRUB, and autoexec.ipxe. The last element of served is the store for most clients. Clients with
// another store get the same boot files, because all offers name these, but get scripts that are
// generated from their own store.
func (s *Settings) AddFiles(served []*store.Store, loaders []store.Store) {
	common := store.Layers(append([]store.Store{*served[len(served)-1]}, loaders...)...)
	for i, files := range served {
		made := &scripts{files: *files, standard: s.Default, timeout: s.Timeout}
		if i < len(served)-1 {
			*files = store.Layers(*files, s.bootFiles(common), made)
		} else {
			*files = store.Layers(common, made)
		}
	}
}

// scripts is a store that contains only scripts generated from the files of another store.
type scripts struct {
	unlisted
	files    store.Store
	standard string
	timeout  time.Duration

	mu    sync.Mutex
	menus map[string][]byte // the menus by name; nil until they are made for the first time; guarded by mu
	at    time.Time         // when the menus were made; guarded by mu
}

func (b *scripts) Open(ctx context.Context, name string) (store.File, error) {
	switch name {
	case pxe.ScriptName, bootmenu.GRUBName:
		return store.FromBytes(name, b.menu(ctx, name)), nil
	case bootmenu.AutoexecName:
		return store.FromBytes(name, bootmenu.AppendAutoexec(nil)), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// menu returns the menu of this name. If the menus are older than scriptsHold, it makes all of them
// again. All clients share the menus, so making them ignores the cancellation of one client's
// context.
func (b *scripts) menu(ctx context.Context, name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.menus == nil || time.Since(b.at) >= scriptsHold {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), menuTime)
		defer cancel()
		menu := readMenu(ctx, b.files)
		// If the files could not be read, keep the old menus.
		if b.at = time.Now(); b.menus == nil || len(menu.Entries) > 0 || len(menu.Problems) == 0 {
			menu.Default, menu.Timeout = b.standard, b.timeout
			b.menus = map[string][]byte{pxe.ScriptName: menu.AppendScript(nil), bootmenu.GRUBName: menu.AppendGRUB(nil)}
		}
	}
	return b.menus[name]
}

// readMenu makes a menu of the kernels in a store.
func readMenu(ctx context.Context, files store.Store) bootmenu.Menu {
	return bootmenu.Read(menuFiles{ctx, files})
}

// A menuFiles implements [bootmenu.Files] for a store, which is searched for kernels.
type menuFiles struct {
	ctx   context.Context
	files store.Store
}

func (m menuFiles) Names(dir string) (names []string, err error) {
	list := store.CapabilitiesOf(m.files).ReadDir
	if list == nil {
		return nil, errors.ErrUnsupported
	}
	entries, err := list(m.ctx, dir)
	for _, e := range entries {
		name := e.Name()
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := m.files.Stat(m.ctx, path.Join(dir, name))
			isDir = err == nil && info.IsDir()
		}
		if isDir {
			name += "/"
		}
		names = append(names, name)
	}
	return names, err
}

func (m menuFiles) Read(name string, most int) ([]byte, error) {
	f, err := m.files.Open(m.ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b, err
}

func (b *scripts) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == "." {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	f, err := b.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}
