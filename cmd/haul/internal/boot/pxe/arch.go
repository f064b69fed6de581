package pxe

import (
	"fmt"
	"strings"
)

// An Arch is the platform of a boot file: the processor, and the firmware that loads it.
type Arch uint8

// These are the architectures. Their numbers in DHCP come from the IANA registry "Processor
// Architecture Types", which RFC 4578 §2.1 created.
const (
	UnknownArch Arch = iota
	BIOS
	IA32
	X64
	ARM
	ARM64
	RISCV64
	LoongArch64
	UBootARM
	UBootARM64
	RaspberryPi
	NumArchs // number of architectures, including UnknownArch
)

// archTexts holds two names of each architecture: the name used in settings, and the text used in
// the log.
var archTexts = [NumArchs]struct{ name, text string }{
	UnknownArch: {"", "an unknown architecture"},
	BIOS:        {"bios", "BIOS"},
	IA32:        {"ia32", "UEFI ia32"},
	X64:         {"x64", "UEFI x64"},
	ARM:         {"arm", "UEFI arm"},
	ARM64:       {"arm64", "UEFI arm64"},
	RISCV64:     {"riscv64", "UEFI riscv64"},
	LoongArch64: {"loongarch64", "UEFI loongarch64"},
	UBootARM:    {"uboot-arm", "U-Boot arm"},
	UBootARM64:  {"uboot-arm64", "U-Boot arm64"},
	RaspberryPi: {"pi", "Raspberry Pi"},
}

// String returns the name for the log, such as "UEFI x64".
func (a Arch) String() string {
	if a >= NumArchs {
		a = UnknownArch
	}
	return archTexts[a].text
}

// ParseArch parses the name of an architecture in settings, such as "x64".
func ParseArch(name string) (Arch, error) {
	var known []string
	for a := BIOS; a < RaspberryPi; a++ {
		if archTexts[a].name == name {
			return a, nil
		}
		known = append(known, archTexts[a].name)
	}
	return UnknownArch, fmt.Errorf("unknown architecture %q; these are known: %s", name, strings.Join(known, ", "))
}

// Name returns the name in settings, such as "x64".
func (a Arch) Name() string {
	if a >= NumArchs {
		a = UnknownArch
	}
	return archTexts[a].name
}

// Numbers returns the numbers of the architecture in option 93.
func (a Arch) Numbers() (all []uint16) {
	const registered = 256
	for n := range uint16(registered) {
		if a != UnknownArch && archOf(n) == a {
			all = append(all, n)
		}
	}
	return all
}

// archOf returns the architecture for a number in option 93. RFC 4578 and the IANA registry
// disagree about 7 and 9; firmware uses both for x64. The numbers for HTTP boot are mapped to the
// same architectures as the numbers for PXE, because the client's class already says how it fetches
// files.
func archOf(number uint16) Arch {
	switch number {
	case 0, 20:
		return BIOS
	case 6, 15:
		return IA32
	case 7, 9, 16, 17:
		return X64
	case 10, 18:
		return ARM
	case 11, 19:
		return ARM64
	case 21, 23:
		return UBootARM
	case 22, 24:
		return UBootARM64
	case 27, 28:
		return RISCV64
	case 39, 40:
		return LoongArch64
	case 41:
		return RaspberryPi
	}
	return UnknownArch
}
