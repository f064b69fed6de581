package proxydhcp

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/store"
)

// loaderNames lists the known names of boot files, the best first: iPXE with a signed shim, iPXE
// with its own drivers, and iPXE that uses the drivers of the firmware.
var loaderNames = map[pxe.Arch][]string{
	pxe.BIOS:        {"undionly.kpxe", "undionly.kkpxe"},
	pxe.X64:         {"ipxe-shimx64.efi", "ipxe.efi", "snponly.efi"},
	pxe.IA32:        {"ipxe-ia32.efi", "ipxe32.efi"},
	pxe.ARM64:       {"ipxe-shimaa64.efi", "ipxe-arm64.efi", "snponly-arm64.efi"},
	pxe.ARM:         {"ipxe-arm32.efi", "snponly-arm32.efi"},
	pxe.RISCV64:     {"ipxe-riscv64.efi"},
	pxe.LoongArch64: {"ipxe-loong64.efi"},
}

// findLoaders searches a store for the boot file of each architecture. If the search fails for some
// architectures, it returns an error, and for these architectures the boot files in `before`.
func findLoaders(ctx context.Context, files store.Store, before map[pxe.Arch]string) (found map[pxe.Arch]string, failed error) {
	found = map[pxe.Arch]string{}
	for arch, names := range loaderNames {
		name, err := firstFile(ctx, files, names)
		if err != nil {
			name, failed = before[arch], err
		}
		if name != "" {
			found[arch] = name
		}
	}
	return found, failed
}

// secondStages lists files that boot files themselves load from their directory.
var secondStages = []string{"grubx64.efi", "grubaa64.efi", "grubia32.efi"}

// bootFiles returns a view of a store that shows only boot files: those that the settings name, and
// those with known names.
func (s *Settings) bootFiles(files store.Store) store.Store {
	b := &bootFiles{files: files, names: map[string]bool{}}
	add := func(names ...string) {
		for _, name := range names {
			b.names[name] = true
		}
	}
	for _, names := range loaderNames {
		add(names...)
	}
	add(secondStages...)
	addOwn := func(name string) {
		add(name)
		for _, stage := range secondStages {
			add(path.Join(path.Dir(name), stage))
		}
	}
	for _, name := range s.Files {
		addOwn(name)
	}
	for _, h := range s.Hosts {
		if h.File != "" {
			addOwn(h.File)
		}
	}
	return b
}

// bootFiles is a view of a store that shows only the files in names.
type bootFiles struct {
	unlisted
	files store.Store
	names map[string]bool
}

func (b *bootFiles) Open(ctx context.Context, name string) (store.File, error) {
	if !b.names[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return b.files.Open(ctx, name)
}

func (b *bootFiles) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if !b.names[name] {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return b.files.Stat(ctx, name)
}

// firstFile returns the first of the names that is a regular file in the store. It returns "" if
// there is no such file.
func firstFile(ctx context.Context, files store.Store, names []string) (string, error) {
	for _, name := range names {
		info, err := files.Stat(ctx, name)
		switch {
		case err == nil && info.Mode().IsRegular():
			return name, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}

// unlisted has the methods that are the same for all read-only stores without listings.
type unlisted struct{}

// Capabilities returns only ReadDir, which returns an empty list.
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
