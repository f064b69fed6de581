package bootmenu

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/internal/urlpath"
)

// AutoexecName is the name of the script that iPXE for UEFI looks for in the directory that it was
// loaded from: see [AppendAutoexec].
const AutoexecName = "autoexec.ipxe"

// A Menu is the menu that iPXE or GRUB shows.
type Menu struct {
	Entries []Entry

	// Default is the Name of the entry that boots after Timeout; "" means the disk of the machine.
	// With a Timeout of 0, the menu waits forever.
	Default string
	Timeout time.Duration

	// Problems lists the entries that were left out, with the reasons.
	Problems []error
}

// Check returns an error if Default is not the name of a bootable entry.
func (m *Menu) Check() error {
	if m.Default != "" && m.index(m.Default) < 0 {
		return fmt.Errorf("no entry has the name %q, which is to be booted by default", m.Default)
	}
	return nil
}

// IPXEProblems returns the reasons why some entries cannot be loaded by an iPXE of early 2019, the
// version in Debian 12, at most maxProblems. By HTTP, that iPXE requests a wrong name if a name in
// the script is not ASCII.
func (m *Menu) IPXEProblems() (all []error) {
	for _, e := range m.Entries {
		if len(all) < maxProblems && strings.ContainsFunc(e.Linux+strings.Join(e.Initrds, ""), func(r rune) bool { return r >= utf8.RuneSelf }) {
			all = append(all, fmt.Errorf("%s: the name of a file has letters that are not ASCII", e.Name))
		}
	}
	return all
}

func (m *Menu) index(name string) int {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Name == name && e.check() == nil {
			return i
		}
	}
	return -1
}

// AppendScript appends the menu as a script for iPXE, to be served as [pxe.ScriptName]. If
// hosts/MAC.ipxe exists, the script runs that file instead of the menu; the MAC is written as in
// 52-54-00-12-34-56. All files are fetched from the server of the script. To boot from the disk on
// UEFI, iPXE exits with an error: after a success, firmware would show its own menu instead of
// trying the next device.
//
// Titles, names and options may have any content: no part of it is taken for an iPXE command.
// Entries that iPXE cannot boot, such as one with a control character in its options, are left out.
func (m *Menu) AppendScript(b []byte) []byte {
	b = append(b, "#!ipxe\n"+
		"chain --autofree --replace /hosts/${mac:hexhyp}.ipxe ||\n"+
		":menu\n"+
		"menu Boot from the network\n"+
		"item local Disk of this machine\n"...)
	if len(m.Entries) == 0 {
		b = append(b, "item --gap There is no kernel on the server\n"...)
	}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.check() == nil {
			b = e.appendItem(b, i)
		}
	}
	b = append(b, "choose --default "...)
	if i := m.index(m.Default); m.Default != "" && i >= 0 {
		b = appendLabel(b, i)
	} else {
		b = append(b, "local"...)
	}
	if m.Timeout > 0 {
		b = strconv.AppendInt(append(b, " --timeout "...), m.Timeout.Milliseconds(), 10)
	}
	b = append(b, " chosen || set chosen local\n"+
		"goto ${chosen}\n"+
		":local\n"+
		"iseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||\n"+
		"exit 1\n"+
		":failed\n"+
		"echo The boot failed\n"+
		"prompt --timeout 10000 Press a key for the menu ||\n"+
		"goto menu\n"...)
	for i := range m.Entries {
		if e := &m.Entries[i]; e.check() == nil {
			b = e.appendBoot(b, i)
		}
	}
	return b
}

// AppendAutoexec appends the script to be served as [AutoexecName]. The script makes iPXE request
// an address, and then run the script that the DHCP answer names or, if the answer names no script,
// [pxe.ScriptName].
func AppendAutoexec(b []byte) []byte {
	return append(b, "#!ipxe\n"+
		"dhcp ||\n"+
		"isset ${proxydhcp/filename} && chain --autofree --replace ${proxydhcp/filename} ||\n"+
		"chain --autofree --replace /"+pxe.ScriptName+"\n"...)
}

// conditions maps each architecture to an iPXE command that succeeds on machines that can run its
// kernels. On a BIOS, iPXE is a 32-bit program, but can start 64-bit kernels as well.
var conditions = map[pxe.Arch]string{
	pxe.IA32:        "iseq ${buildarch} i386",
	pxe.X64:         "iseq ${buildarch} x86_64 || iseq ${platform} pcbios",
	pxe.ARM:         "iseq ${buildarch} arm32",
	pxe.ARM64:       "iseq ${buildarch} arm64",
	pxe.RISCV64:     "iseq ${buildarch} riscv64",
	pxe.LoongArch64: "iseq ${buildarch} loong64",
}

// appendItem appends the line that shows an entry in the menu.
func (e *Entry) appendItem(b []byte, i int) []byte {
	condition := conditions[e.Arch]
	if condition != "" {
		b = append(append(b, condition...), " && "...)
	}
	b = appendWords(appendLabel(append(b, "item "...), i), printable(e.Title))
	if condition != "" {
		b = append(b, " ||"...)
	}
	return append(b, '\n')
}

// appendBoot appends the commands that boot an entry. A kernel with UEFI finds its initrds by their
// names on its command line; since 2020, iPXE also passes them by itself.
func (e *Entry) appendBoot(b []byte, i int) []byte {
	b = append(appendLabel(append(b, ':'), i), "\nimgfree ||\nkernel /"...)
	b = urlpath.Append(b, e.Linux)
	for n := range e.Initrds {
		b = appendInitrd(append(b, " initrd="...), n)
	}
	b = append(appendWords(b, e.Options), " || goto failed\n"...)
	for n, name := range e.Initrds {
		b = append(appendInitrd(append(b, "initrd --name "...), n), " /"...)
		b = append(urlpath.Append(b, name), " || goto failed\n"...)
	}
	return append(b, "boot || goto failed\n"...)
}

func appendLabel(b []byte, i int) []byte {
	return strconv.AppendInt(append(b, "entry"...), int64(i), 10)
}

func appendInitrd(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, "initrd"...), int64(n), 10), ".img"...)
}

// The constant `nothing` refers to an iPXE setting that does not exist, so iPXE expands it to an
// empty string. iPXE expands settings only after it has split a line into words and commands. So
// this reference can separate characters that iPXE would otherwise join, and hide words that iPXE
// would otherwise interpret.
const nothing = "${nothing}"

// appendWords appends each word of text after a space, written so that iPXE passes it to the
// command unchanged. The text must not contain control characters or "${".
//
// iPXE does not support quotes. It ends a command at the words ||, && and ;, treats a word that
// begins with # as a comment, and joins a line that ends with a backslash to the next line.
func appendWords(b []byte, text string) []byte {
	for word := range strings.FieldsSeq(text) {
		b = append(b, ' ')
		if word[0] == '#' || word == "||" || word == "&&" || word == ";" {
			b = append(b, nothing...)
		}
		b = append(b, word...)
		if word[len(word)-1] == '\\' {
			b = append(b, nothing...)
		}
	}
	return b
}

// printable returns a title that a menu can show: in ASCII, with at most maxTitle bytes, and
// without iPXE settings.
func printable(title string) string {
	title = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, title)
	return strings.ReplaceAll(title[:min(len(title), maxTitle)], "${", "$(")
}
