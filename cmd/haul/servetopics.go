package main

const configurationHelp = `The settings of "haul serve": a file, variables and flags.

Each setting has a key in the file, a variable and a flag. "haul help serve files" and
its neighbours explain the flags; "haul config show" lists the keys. From the key
tftp.single_port follow the variable HAUL_TFTP_SINGLE_PORT and the flag
--tftp-single-port, which is also called --single-port.

If several places have a setting, a flag counts for more than a variable, and that for
more than the file. A variable that is empty counts as if it were not set, and one that
looks like a misspelled setting is a mistake. Lists stand between commas in variables and
flags; a part that has a comma is in double quotes.

The file is TOML. --config FILE names it. Without that, and without DIR, haul reads
haul.toml in the directory that CONFIGURATION_DIRECTORY names, or else in /etc/haul:

  dirs = ["/srv/boot"]
  user = "haul"
  allow = ["10.0.0.0/8"]

  [tftp]
  listen = [":69"]

  [http]
  listen = [":80"]
  listing = true

Sizes and times are text: "16MiB", "10s". A path that is not absolute is below the
directory that haul was started in, not that of the file.

"haul config check" reports all mistakes of a file, with their lines. "haul serve" with
such a file opens nothing and ends with exit code 2.

After a change, the signal SIGHUP ("systemctl reload haul") has the server read the file
again. A new process checks it and takes over; transfers under way finish in the old
one. With a mistake in the file the old process continues, and logs the mistake. Changes
of the users file, of certificates and of the files that are served need no reload.`

const serveTFTPHelp = `Serve files over TFTP.

TFTP has no users: every client may read, and may write only where --upload allows it
("haul help serve files"). Without --tftp, haul listens on port 69, or on 6969 if it
cannot have that.

Each transfer has a port of its own. Behind NAT or in a container, use --single-port,
or open the --ports in the firewall.

For firmware with mistakes, some clients can be served otherwise, by their address:
  --refuse 'tsize 10.1.0.0/16' ignores an option of these clients, as if haul did not know
    it; --refuse tsize,windowsize those of all clients. All rules for a client count.
    The options are blksize, blksize2, tsize, timeout, utimeout, windowsize, rollover.
  --rollover '1 10.2.0.0/16' continues with block 1 after block 65535, where most clients
    expect 0. The first rule for a client counts.`

const serveSFTPHelp = `Serve files over SFTP.

SFTP users log in. --users FILE names them; without it, haul takes the file that "haul
user" has made. Without a users file, one user gets a password for this run, which haul
prints. This user may read, with --upload create also add files, and with --upload
overwrite change and remove everything.

The users file says what each user may do, how fast, and in which directory: see "haul
help users-file". A change takes effect within seconds, and disconnects sessions whose
login would be refused now. Three wrong passwords block further passwords from that
address for a time; keys still work.

haul makes the host key at the first start and keeps it (--host-keys). SFTP users get
no shell and no forwarding. The only commands are md5sum, sha1sum and sha256sum, for
rclone.`

const serveHTTPHelp = `Serve files over HTTP and HTTPS.

HTTP is open to everybody. With --http-auth FILE, users log in with a password over
HTTPS, and may do what that file says ("haul help users-file"). Behind a proxy that
does TLS, --http-plain-auth takes passwords over HTTP, and --http-proxy reads each
client's address from the proxy's PROXY header. Without --http-auth, a server on
127.0.0.1 answers only to names that it knows, so that no page can reach it by a name
of its own: --http-host adds those that a proxy passes on.

Without --cert, haul makes a self-signed certificate at the first start and prints its
fingerprint, which "haul get --fingerprint" checks. It keeps it in $STATE_DIRECTORY,
/var/lib/haul for root, or ~/.local/state/haul. A start in its last 30 days makes a
new one.

GET takes ranges and conditions. For a directory it sends the index.html in it
(--index); with --listing, it lists a directory that has none, and sends any as a
tar or zip (?archive=tar). PUT makes missing directories, and can resume an upload
that was cut off.`

const serveFilesHelp = `Which files clients get, and what they may write.

Nothing outside DIR can be read or written, neither by ".." nor through a symbolic link.
Of several DIRs, the first that has a file serves it; uploads go to the first. An upload
appears under its name when it is complete and safe on disk, and never before.

With --no-fsync haul does not wait for the disk, except at the checkpoints of uploads that
can be resumed. An upload still appears whole or not at all, whatever becomes of haul. But
if the machine crashes or loses power, files of the last half minute or so may be missing,
empty or damaged, though clients saw them succeed: use it for files you can send again.

DIR may be on another machine: https://HOST/DIR/ (or http://), sftp://[USER@]HOST/DIR or
s3://BUCKET/PREFIX. haul logs in there with the keys and passwords that ssh, curl and the
tools of AWS would use, as the user that it runs as, and asks nobody. If that machine is
away, haul starts all the same, logs it, and tries again; clients get an error. --cache
keeps what was read from there; --redirect-to lets a web server redirect to another.

SFTP users, and HTTP users with --http-auth, may do what the users file says. All other
clients may read, and write only with --upload. For them, names that begin with a dot,
and everything below them, do not exist without --hidden, except .well-known.

Over TFTP, and HTTP without --http-auth, these select what a client gets:
  --root CLIENT=DIR gives some clients another directory. CLIENT is an address
    or network, a hardware address, or on=ADDRESS, where the client asked;
    several are separated by commas: --root 52:54:00:12:34:56,10.1.0.0/16=/srv/lab
  --per-client gives each client a directory below DIR, named by its address
    (192.0.2.7) or hardware address (52-54-00-12-34-56), if it exists

  --map rewrites names by the rules of a file, as tftpd-hpa's -m does;
    "haul map test" shows what they make of a name
  --access RULE is "allow" or "deny", then "read", "write" or "all", then
    CLIENT or *, then a pattern of names if not for all; the first that fits
    decides: --access 'deny read * *.key' --access 'allow write 10.0.0.0/8 logs/**'`

const serveBootHelp = `Boot machines from the network, beside their DHCP server.

With --boot, or as "haul boot", haul answers the DHCP packets of machines that boot from
the network, on UDP ports 67 and 4011. It adds the boot file to what the DHCP server of
the network says, and never gives an address (ProxyDHCP). It answers nobody else. The
DHCP server needs no change. If it names a boot file itself, take that out. If it runs
on the same machine, start it before haul, which shares its port.

Boot files come from DIR, from DIR/ipxe, or from Debian's package ipxe:

  BIOS        undionly.kpxe
  UEFI x64    ipxe-shimx64.efi, ipxe.efi or snponly.efi
  UEFI arm64  ipxe-shimaa64.efi, ipxe-arm64.efi or snponly-arm64.efi

A Raspberry Pi asks for names of its own. --boot-file names other boot files, such as
GRUB. For Secure Boot give shim by --boot-file x64=shimx64.efi, and put grubx64.efi
beside it. GRUB boots signed kernels, and gets the menu as grub/grub.cfg.

iPXE gets boot.ipxe: the one in DIR, or else a menu that haul makes from the entries in
DIR/loader/entries (Boot Loader Specification), or from each directory that has a kernel
and an initrd. It begins with hosts/MAC.ipxe, such as hosts/52-54-00-12-34-56.ipxe, if
that file is in DIR, and boots the local disk after 10 seconds. A machine for which
--root names another directory gets the boot files as well, and a menu of what is there.

Relay agents are answered if --boot-relay has their network. In a container, broadcasts
arrive only with the network of the host.

--trace shows each DHCP packet, its options, and the answer or the reason for none. Where
firmware takes no answer but that of the DHCP server, "haul boot --advise" prints lines
by which dnsmasq, ISC's dhcpd or Kea names the boot files itself.`

const serveLimitsHelp = `Limit clients, connections and bytes a second.

SFTP and HTTP count all addresses of an IPv6 /64 as one; TFTP counts each by itself.
Three wrong passwords block further passwords from that address for a time, longer each
time.`

const serveOpsHelp = `Run a server: signals, restarts, rights, logs, status page, metrics and packet traces.

After the first signal, transfers under way have --grace to finish. A second signal ends
haul at once.

With --restartable, the signal SIGUSR2 starts haul anew, as after an update, and
disconnects nobody. The new process has the same arguments, and takes over the sockets
when it is ready. The old one accepts nothing more, and ends with its last connection,
or after an hour. If the new process fails, the old one continues to serve. With
--single-port, transfers under way have --grace to finish.

Once everything is open, haul gives up root (--user) and all capabilities, and the
kernel denies it all files but those that it serves, where it can (Landlock).

haul logs each transfer, login and change on standard error, in one line. With --status it
serves a page on what it does; "haul top" shows that on a terminal. --audit FILE has the
lines as JSON, and says how many are missing; --audit-hash adds the hash of each upload.

--hook 'on=uploaded,failed run=/usr/local/bin/scan --quiet' runs a program for such events,
with the event as JSON on its standard input; url=https://HOST/PATH posts it. Others are
downloaded, login, login_failed and boot. No transfer waits for a hook.`
