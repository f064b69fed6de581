package bootmenu

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/internal/urlpath"
)

// GRUBName is the name of the script that GRUB requests from the server that it was loaded from:
// see [Menu.AppendGRUB].
const GRUBName = "grub/grub.cfg"

// AppendGRUB appends the menu as a script for GRUB, to be served as [GRUBName]. With Secure Boot,
// GRUB can boot signed kernels; iPXE may not be able to.
//
// Titles, names and options may have any content, as in [Menu.AppendScript]. Entries that GRUB
// cannot boot are left out: see [Menu.GRUBProblems]. For example, GRUB adds a backslash before each
// backslash and single quote in the options, so an entry with such a character is left out.
func (m *Menu) AppendGRUB(b []byte) []byte {
	// After HTTP boot, a GRUB without an HTTP driver loads this script by TFTP. These lines make it
	// load the other files by TFTP too.
	b = append(b, `if [ "$config_directory" = "(tftp,$net_default_server)/grub" ]; then
	set root="tftp,$net_default_server"
fi
set default=`...)
	if i := m.index(m.Default); m.Default != "" && i >= 0 && m.Entries[i].checkGRUB() == nil {
		b = appendLabel(b, i)
	} else {
		b = append(b, "local"...)
	}
	if m.Timeout > 0 {
		b = strconv.AppendInt(append(b, "\nset timeout="...), max(int64(m.Timeout.Seconds()), 1), 10)
	}
	b = append(b, '\n')
	b = append(b, grubDisk...)
	for i := range m.Entries {
		if e := &m.Entries[i]; e.check() == nil && e.checkGRUB() == nil {
			b = e.appendGRUB(b, i)
		}
	}
	return b
}

// GRUBProblems returns the reasons why entries of the iPXE menu are missing in the GRUB menu, at
// most maxProblems.
func (m *Menu) GRUBProblems() (all []error) {
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := e.checkGRUB(); err != nil && e.check() == nil && len(all) < maxProblems {
			all = append(all, fmt.Errorf("%s: %w", e.Name, err))
		}
	}
	return all
}

// grubDisk boots from the machine's disk. If GRUB merely exited, the firmware might show its setup
// instead of trying the next device. So GRUB itself looks for the boot loaders of distributions,
// and then for UEFI's default loader, whose name contains UEFI's name of the architecture (UEFI
// 2.10 §3.5.1.1). A GRUB that loads its modules from the network cannot read partitions unless it
// can load the modules for them. For arm, riscv64 and loongarch64, GRUB's names are the same as
// UEFI's.
const grubDisk = `menuentry 'Disk of this machine' --id local {
	set suffix=$grub_cpu
	if [ "$grub_cpu" = x86_64 ]; then
		set suffix=x64
	elif [ "$grub_cpu" = i386 ]; then
		set suffix=ia32
	elif [ "$grub_cpu" = arm64 ]; then
		set suffix=aa64
	fi
	if [ "$grub_platform" = efi ]; then
		insmod part_gpt
		insmod part_msdos
		insmod fat
		for name in debian/shim ubuntu/shim fedora/shim redhat/shim centos/shim rocky/shim almalinux/shim opensuse/shim sles/shim BOOT/BOOT; do
			if search --no-floppy --file --set=disk "/EFI/$name$suffix.efi"; then
				chainloader "($disk)/EFI/$name$suffix.efi"
				boot
			fi
		done
	fi
	exit 1
}
`

// grubConditions maps each architecture to a GRUB condition that is true on machines that can run
// its kernels. The map `conditions` does the same for iPXE.
var grubConditions = map[pxe.Arch]string{
	pxe.IA32:        `"$grub_cpu" = i386`,
	pxe.X64:         `"$grub_cpu" = x86_64 -o "$grub_platform" = pc`,
	pxe.ARM:         `"$grub_cpu" = arm`,
	pxe.ARM64:       `"$grub_cpu" = arm64`,
	pxe.RISCV64:     `"$grub_cpu" = riscv64`,
	pxe.LoongArch64: `"$grub_cpu" = loongarch64`,
}

// checkGRUB returns an error if GRUB cannot boot the entry, or cannot pass its options unchanged.
func (e *Entry) checkGRUB() error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case strings.ContainsAny(e.Options, `\'`):
		return errors.New("its options have a single quote or a backslash")
	case strings.ContainsFunc(e.Linux+strings.Join(e.Initrds, ""), control):
		return errors.New("the name of a file has a control character")
	}
	return nil
}

func (e *Entry) appendGRUB(b []byte, i int) []byte {
	condition := grubConditions[e.Arch]
	if condition != "" {
		b = append(append(append(b, "if [ "...), condition...), " ]; then\n"...)
	}
	title := printable(e.Title)
	if strings.HasPrefix(title, "-") {
		title = " " + title // otherwise, menuentry may take it for an option
	}
	b = appendQuoted(append(b, "menuentry"...), title)
	b = append(appendLabel(append(b, " --id "...), i), " {\n"...)
	asIs := e.appendGRUBFiles(nil, func(name string) string { return name })
	encoded := e.appendGRUBFiles(nil, func(name string) string { return string(urlpath.Append(nil, name)) })
	if bytes.Equal(asIs, encoded) {
		b = append(b, asIs...)
	} else {
		// GRUB does not encode the names that it requests by HTTP, so the script contains them
		// encoded.
		b = append(b, "\tif [ \"$root\" = \"tftp,$net_default_server\" ]; then\n"...)
		b = append(append(append(b, asIs...), "\telse\n"...), encoded...)
		b = append(b, "\tfi\n"...)
	}
	b = append(b, "}\n"...)
	if condition != "" {
		b = append(b, "fi\n"...)
	}
	return b
}

// appendGRUBFiles appends the commands that load the files of an entry. path converts the name of a
// file to the name that GRUB requests.
func (e *Entry) appendGRUBFiles(b []byte, path func(name string) string) []byte {
	b = appendQuoted(append(b, "\tlinux"...), "/"+path(e.Linux))
	for _, word := range kernelWords(e.Options) {
		b = appendQuoted(b, word)
	}
	b = append(b, '\n')
	if len(e.Initrds) == 0 {
		return b
	}
	b = append(b, "\tinitrd"...)
	for _, name := range e.Initrds {
		b = appendQuoted(b, "/"+path(name))
	}
	return append(b, '\n')
}

// appendQuoted appends a space and then the word, quoted so that GRUB takes it literally.
func appendQuoted(b []byte, word string) []byte {
	b = append(b, " '"...)
	b = append(b, strings.ReplaceAll(word, "'", `'\''`)...)
	return append(b, '\'')
}

// kernelWords splits options into words as the kernel does: white space between double quotes does
// not separate words. It removes the double quotes, because GRUB itself quotes a word with white
// space when it passes the word to the kernel.
func kernelWords(options string) []string {
	quoted := false
	words := strings.FieldsFunc(options, func(r rune) bool {
		quoted = quoted != (r == '"')
		return !quoted && (r == ' ' || r == '\t')
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}
