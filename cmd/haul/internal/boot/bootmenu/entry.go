package bootmenu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// These constants limit an entry.
const (
	maxEntryFile = 16 << 10 // largest size of a file in loader/entries, in bytes
	maxTitle     = 100      // how many bytes of a title are shown; the rest is cut off
	maxPath      = 255      // longest name of a file, in bytes
	maxInitrds   = 8
	maxOptions   = 2048 // longest command line of a kernel, in bytes; the limit of Linux on x86 and arm64
)

// An Entry describes a system to boot: a kernel, its initrds, and its command line.
type Entry struct {
	Name    string // the name for [Menu.Default]: the name of the entry's file without ".conf", or of its directory
	Title   string
	Linux   string // name of the kernel's file, without a leading slash
	Initrds []string
	Options string
	Arch    pxe.Arch // UnknownArch if the entry is for all machines
}

// entryArchs maps the names of architectures in the Boot Loader Specification, in lower case.
var entryArchs = map[string]pxe.Arch{
	"ia32": pxe.IA32, "x64": pxe.X64, "arm": pxe.ARM, "aa64": pxe.ARM64, "riscv64": pxe.RISCV64, "loongarch64": pxe.LoongArch64,
}

// parseEntry parses a file of loader/entries (UAPI.1, Boot Loader Specification, type #1). Some
// distributions use GRUB variables in these files. parseEntry ignores the variables of the program
// tuned, which may be empty, and all variables in initrd lines. Any other variable in the options
// is an error.
func parseEntry(name string, text []byte) (e Entry, err error) {
	e.Name = name
	version := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value := line, ""
		if i := strings.IndexAny(line, " \t"); i > 0 {
			key, value = line[:i], strings.TrimSpace(line[i:])
		}
		switch strings.ToLower(key) {
		case "title":
			e.Title = value
		case "version":
			version = value
		case "linux":
			e.Linux, err = entryPath(value)
		case "initrd":
			err = e.addInitrds(value)
		case "options":
			e.addOptions(value)
		case "architecture":
			if e.Arch = entryArchs[strings.ToLower(value)]; e.Arch == pxe.UnknownArch {
				err = fmt.Errorf("unknown architecture %q", value)
			}
		}
		if err != nil {
			return e, err
		}
	}
	if e.Title == "" {
		e.Title = strings.TrimSpace(name + " " + version)
	}
	return e, e.check()
}

func (e *Entry) addInitrds(value string) error {
	for word := range strings.FieldsSeq(value) {
		if word[0] == '$' {
			continue
		}
		path, err := entryPath(word)
		if err != nil {
			return err
		}
		e.Initrds = append(e.Initrds, path)
	}
	return nil
}

func (e *Entry) addOptions(value string) {
	words := strings.Fields(value)
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "$tuned_") })
	e.Options = strings.TrimSpace(e.Options + " " + strings.Join(words, " "))
}

// check returns an error if iPXE cannot boot the entry.
func (e *Entry) check() error {
	unsafe := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	switch {
	case e.Linux == "":
		return errors.New("it has no line linux: only kernels can be started")
	case len(e.Initrds) > maxInitrds:
		return fmt.Errorf("it has %d initrds: %d are the most", len(e.Initrds), maxInitrds)
	case len(e.Options) > maxOptions:
		return fmt.Errorf("its options have %d bytes: a kernel reads %d", len(e.Options), maxOptions)
	case strings.ContainsFunc(e.Options, unsafe):
		return errors.New("its options have a control character")
	case strings.Contains(e.Options, "${"), slices.ContainsFunc(strings.Fields(e.Options), isVariable):
		return errors.New("its options have a variable of a boot loader, such as $kernelopts: write its value there")
	}
	return nil
}

func isVariable(word string) bool { return word[0] == '$' }

// entryPath returns the name of a file in an entry, without leading slashes, because such names are
// absolute within the tree.
func entryPath(value string) (string, error) {
	name := strings.TrimLeft(value, "/")
	if name == "" || len(name) > maxPath || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%q is not the name of a file below the directory that is served", value)
	}
	return name, nil
}
