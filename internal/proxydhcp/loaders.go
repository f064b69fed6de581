package proxydhcp

import (
	"context"

	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/store"
)

// loaderNames are the names of boot files, the best first: iPXE with a signed shim, iPXE
// with its own drivers, and iPXE that uses those of the firmware.
var loaderNames = map[pxe.Arch][]string{
	pxe.BIOS:        {"undionly.kpxe", "undionly.kkpxe"},
	pxe.X64:         {"ipxe-shimx64.efi", "ipxe.efi", "snponly.efi"},
	pxe.IA32:        {"ipxe-ia32.efi", "ipxe32.efi"},
	pxe.ARM64:       {"ipxe-shimaa64.efi", "ipxe-arm64.efi", "snponly-arm64.efi"},
	pxe.ARM:         {"ipxe-arm32.efi", "snponly-arm32.efi"},
	pxe.RISCV64:     {"ipxe-riscv64.efi"},
	pxe.LoongArch64: {"ipxe-loong64.efi"},
}

// findLoaders returns the boot file of each architecture that a store has.
func findLoaders(ctx context.Context, files store.Store) map[pxe.Arch]string {
	found := map[pxe.Arch]string{}
	for arch, names := range loaderNames {
		for _, name := range names {
			if info, err := files.Stat(ctx, name); err == nil && info.Mode().IsRegular() {
				found[arch] = name
				break
			}
		}
	}
	return found
}
