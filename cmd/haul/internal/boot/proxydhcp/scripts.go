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
	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/store"
)

const (
	// scriptsHold is how long a script holds. A new entry shows in the menu after that.
	scriptsHold = 2 * time.Second

	// menuTime bounds how long the files for a menu are read.
	menuTime = 10 * time.Second
)

// AddFiles adds to files that are served what boot clients need besides: boot files of
// loaders, and the scripts that follow from the files, which are the menus for iPXE and GRUB
// and autoexec.ipxe. The last files are for most clients. Clients that have others get the same
// boot files, which all offers name, and scripts for their own.
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

// scripts is a store of the scripts that follow from other files.
type scripts struct {
	unlisted
	files    store.Store
	standard string
	timeout  time.Duration

	mu    sync.Mutex
	menus map[string][]byte // mu: by their names; nil before the first
	at    time.Time         // mu: when they were made
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

// menu returns the menu of a name. All are made anew if they are old. They are for all clients:
// one that leaves does not cut them short.
func (b *scripts) menu(ctx context.Context, name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.menus == nil || time.Since(b.at) >= scriptsHold {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), menuTime)
		defer cancel()
		menu := readMenu(ctx, b.files)
		if b.at = time.Now(); b.menus == nil || len(menu.Entries) > 0 || len(menu.Problems) == 0 { // or files could not be read now
			menu.Default, menu.Timeout = b.standard, b.timeout
			b.menus = map[string][]byte{pxe.ScriptName: menu.AppendScript(nil), bootmenu.GRUBName: menu.AppendGRUB(nil)}
		}
	}
	return b.menus[name]
}

// readMenu makes a menu of the files of a store.
func readMenu(ctx context.Context, files store.Store) bootmenu.Menu {
	return bootmenu.Read(menuFiles{ctx, files})
}

// menuFiles are the files of a store in which a menu is looked for.
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

// unlisted is the part of a store whose files nobody changes, and are not listed.
type unlisted struct{}

// Capabilities lists an empty directory.
func (u unlisted) Capabilities() store.Capabilities { return store.Capabilities{ReadDir: u.readDir} }

func (unlisted) Create(_ context.Context, name string, _ store.Create) (store.Upload, error) {
	return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrPermission}
}

func (unlisted) readDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return nil, nil
}
