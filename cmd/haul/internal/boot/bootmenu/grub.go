package bootmenu

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/haul-project/haul/internal/urlpath"
	"github.com/haul-project/haul/pxe"
)

// GRUBName is the script that GRUB looks for on the server which it came from: see
// [Menu.AppendGRUB].
const GRUBName = "grub/grub.cfg"

// AppendGRUB appends the menu as a script for GRUB, for the name [GRUBName]. With Secure Boot,
// GRUB boots what iPXE may not: kernels that are signed.
//
// Titles, names and options may have any content, as in [Menu.AppendScript]. An entry that GRUB
// cannot boot is left out, such as one with a backslash or a single quote in its options, in
// front of which GRUB puts a backslash: see [Menu.GRUBProblems].
func (m *Menu) AppendGRUB(b []byte) []byte {
	// After HTTP boot, GRUB without a driver for HTTP is sent here by TFTP.
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

// GRUBProblems returns the entries that the menu for iPXE has, and that for GRUB has not, and why:
// the first of them.
func (m *Menu) GRUBProblems() (all []error) {
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := e.checkGRUB(); err != nil && e.check() == nil && len(all) < maxProblems {
			all = append(all, fmt.Errorf("%s: %w", e.Name, err))
		}
	}
	return all
}

// grubDisk boots the disk. Firmware that GRUB returns to may show its setup and not try the
// next device, so GRUB looks for the boot loaders of distributions itself, and then for the
// one of UEFI's default name, which has the architecture as UEFI calls it (UEFI 2.10 §3.5.1.1).
// A GRUB that has its modules from the network knows no partitions without those for them.
// Of the names, arm, riscv64 and loongarch64 have the same name for GRUB.
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

// grubConditions are true where a kernel of an architecture runs, as conditions are for iPXE.
var grubConditions = map[pxe.Arch]string{
	pxe.IA32:        `"$grub_cpu" = i386`,
	pxe.X64:         `"$grub_cpu" = x86_64 -o "$grub_platform" = pc`,
	pxe.ARM:         `"$grub_cpu" = arm`,
	pxe.ARM64:       `"$grub_cpu" = arm64`,
	pxe.RISCV64:     `"$grub_cpu" = riscv64`,
	pxe.LoongArch64: `"$grub_cpu" = loongarch64`,
}

// checkGRUB returns why GRUB cannot boot the entry with the options as they are.
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
		title = " " + title // otherwise it may be an option of menuentry
	}
	b = appendQuoted(append(b, "menuentry"...), title)
	b = append(appendLabel(append(b, " --id "...), i), " {\n"...)
	asIs := e.appendGRUBFiles(nil, func(name string) string { return name })
	encoded := e.appendGRUBFiles(nil, func(name string) string { return string(urlpath.Append(nil, name)) })
	if bytes.Equal(asIs, encoded) {
		b = append(b, asIs...)
	} else {
		// GRUB encodes no name: what it sends by HTTP has to be part of a URL.
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

// appendGRUBFiles appends the commands that load an entry. path returns the name by which GRUB
// asks for a file.
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

// appendQuoted appends a space and a word, which GRUB takes as it is.
func appendQuoted(b []byte, word string) []byte {
	b = append(b, " '"...)
	b = append(b, strings.ReplaceAll(word, "'", `'\''`)...)
	return append(b, '\'')
}

// kernelWords cuts options into words as a kernel does, which reads white space between double
// quotes as part of a word. GRUB quotes such a word again.
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
