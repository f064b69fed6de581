package main

import (
	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcpadvice"
	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/serve"
)

const bootHelp = `Boot machines from the network, beside the DHCP server that is there.

"haul boot" is "haul serve" with --boot: it serves DIR by TFTP and HTTP, and answers
machines that boot from the network with the name of their boot file (ProxyDHCP). The
DHCP server of the network stays as it is and gives them addresses; haul never does.

Firmware gets iPXE, of DIR or of Debian's package ipxe. iPXE gets a menu: the entries
of DIR/loader/entries, or else the directories with a kernel and an initrd. After 10
seconds the machine boots from its disk. "haul help serve boot" explains boot files,
rules for single machines, Secure Boot and relay agents.`

const bootExamples = `  haul boot /srv/boot                        on all networks of this machine
  haul boot /srv/boot --interface eth1       on one of them
  haul boot /srv/boot --dry-run              log who would be answered, and send nothing
  haul boot /srv/boot --boot-known --boot-host 52:54:00:12:34:56=grubx64.efi
                                             one machine, which gets GRUB
  haul boot /srv/boot --boot-file x64=shimx64.efi
                                             for Secure Boot
  haul boot /srv/boot --advise dnsmasq       lines for the DHCP server, if a machine takes no
                                             second answer`

func newBoot() *cobra.Command {
	var f serveFlags
	dryRun, advise := false, ""
	cmd := &cobra.Command{
		Use:     "boot [DIR...]",
		Short:   "Boot machines from the network, beside their DHCP server",
		Long:    bootHelp,
		Example: bootExamples,
		Annotations: commandline.More("interface boot-file boot-host boot-known dry-run advise tftp http listing upload allow user config metrics quiet trace",
			"serve boot", "serve tftp", "serve http", "serve files", "serve limits", "serve ops"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := f.resolve(cmd, args)
			if err != nil {
				return mistakes(err)
			}
			cfg.Boot.DryRun = dryRun || advise != ""
			if advise != "" {
				cfg.Boot.Advise = advise
				return f.settings.Located(serve.DryRun(cfg, cmd.OutOrStdout()))
			}
			return f.settings.Located(runServer(cmd.Context(), cfg, cmd.ErrOrStderr()))
		},
	}
	f.addSettings(cmd, config.NewBoot())
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "decide and log who would be answered; send nothing, and serve no files")
	cmd.Flags().StringVar(&advise, "advise", "", "print lines by which this `SERVER` for DHCP names the boot files itself, and exit: dnsmasq, isc or kea")
	commandline.CompleteWords(cmd, "advise", dhcpadvice.Servers()...)
	commandline.Group(cmd, "dry-run", "boot")
	commandline.Group(cmd, "advise", "boot")
	cmd.ValidArgsFunction = completeDirs
	return cmd
}
