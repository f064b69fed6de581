package doctor

import "fmt"

// A Verdict is the result of a persona, or says how bad a broken rule is for that persona.
type Verdict uint8

// The verdicts, from good to bad.
const (
	OK      Verdict = iota // there is no fault
	Skipped                // the persona could not judge the server; the notes give the reason
	Warning                // the client works, but something is wrong
	Failed                 // this client does not get its file, or worse
)

var verdictNames = [...]string{OK: "ok", Skipped: "skipped", Warning: "warning", Failed: "fails"}

// String returns the verdict in one word.
func (v Verdict) String() string { return verdictNames[v] }

// MarshalText returns the word of String. JSON uses it.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText parses a word that MarshalText returns.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, name := range verdictNames {
		if name == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no verdict", text)
}

// A Rule describes a rule that a server should follow.
type Rule struct {
	Name   string `json:"name"`
	Source string `json:"source"` // the RFC, or the client that requires it
	Advice string `json:"advice"` // advice for the server's administrator
}

// The names of the rules. Every finding has one of these names, so that the same cause has the same
// name for all personas.
const (
	ruleNoAnswer       = "no-answer"
	ruleStalls         = "stalls"
	ruleBreaksOff      = "breaks-off"
	ruleContent        = "content-differs"
	ruleNetascii       = "netascii"
	ruleRefused        = "options-refused"
	ruleUnasked        = "unasked-option"
	ruleUnknown        = "unknown-option-echoed"
	ruleMalformed      = "malformed-option"
	ruleBadOACK        = "oack-malformed"
	ruleOACKCase       = "oack-case"
	ruleNeedsOACK      = "oack-needed"
	ruleNeedsSize      = "tsize-needed"
	ruleSizeZero       = "tsize-zero"
	ruleSizeWrong      = "tsize-wrong"
	ruleTimeout        = "timeout-changed"
	ruleBlockSize      = "blksize-above-asked"
	ruleBlockLong      = "block-too-long"
	ruleFragments      = "fragments"
	ruleWindow         = "windowsize-above-asked"
	ruleWindowExceeded = "window-exceeded"
	ruleWindowShort    = "window-short"
	ruleRewind         = "window-rewind"
	ruleFirstBlock     = "first-block"
	ruleRollover       = "rollover"
	ruleOptionCase     = "option-case"
	ruleModeCase       = "mode-case"
	ruleRepeat         = "repeat-opens-two"
	ruleReset          = "reset-port"
	ruleProbe          = "probe-spoils"
	ruleApprentice     = "sorcerers-apprentice"
	ruleOACKLost       = "oack-lost"
	ruleResend         = "resend-differs"
	ruleSilent         = "amplification"
	rulePort           = "port-changes"
	ruleAddress        = "answer-address"
	ruleStray          = "stray-disturbs"
	ruleStrayQuiet     = "stray-unanswered"
	ruleLastAck        = "last-ack-missing"
	ruleMissing        = "missing-file-code"
	ruleErrorNUL       = "error-without-nul"
	ruleTraversal      = "traversal"
	ruleBadPacket      = "malformed-packet"
	ruleSlash          = "leading-slash"
	ruleUpload         = "upload"
	ruleUploadRepeat   = "upload-last-block"
)

// rules explains all rules, in the order in which they are printed.
var rules = []Rule{
	{ruleNoAnswer, "RFC 1350 §4", "The request was not answered within several tries. Look for a firewall that lets only port 69 through, and at the server's log."},
	{ruleStalls, "RFC 1350 §2", "The server stopped in the middle. Look for lost packets, and at whether the server sends again after a timeout."},
	{ruleBreaksOff, "RFC 1350 §7", "The server ended the transfer by an ERROR; its log should say why."},
	{ruleContent, "RFC 1350 §2", "Not every client gets the same bytes. Do not use this server for boot files until that is cured."},
	{ruleNetascii, "RFC 1350 §1; tftp-hpa's default mode", "Let the server take netascii and translate line ends, or ask users to say \"mode octet\"."},
	{ruleRefused, "RFC 2347", "Ignore options that the server does not know, and answer the request without them."},
	{ruleUnasked, "RFC 2347", "An OACK may hold only what the client asked for: tftp-hpa waits for ever, others give up by ERROR 8."},
	{ruleUnknown, "RFC 2347", "An unknown option must be left out of the OACK: a client takes it for agreed on."},
	{ruleMalformed, "RFC 2347; atftp sends \"tsize enable\"", "An option without a valid value is to be passed over: neither echoed nor a reason to refuse the request."},
	{ruleBadOACK, "RFC 2347", "The OACK is not a list of names and decimal values, each ended by a NUL. Update the server."},
	{ruleOACKCase, "GRUB 2 and barebox compare letter by letter", "Answer options under their lower-case names; GRUB and barebox overlook any other, and cut the file at its first block."},
	{ruleNeedsOACK, "GRUB 2, UEFI PXE, iPXE", "Turn on options (RFC 2347) in the server: these clients do not work without an OACK."},
	{ruleNeedsSize, "RFC 2349; UEFI PXE, iPXE, barebox", "Turn on the option tsize: these clients ask for the size first."},
	{ruleSizeZero, "curl 7.88 ends with exit code 71", "Leave tsize out of the OACK of an empty file."},
	{ruleSizeWrong, "RFC 2349", "The OACK must carry the file's size, not the value of the request."},
	{ruleTimeout, "RFC 2349; U-Boot answers ERROR 8", "Confirm the timeout that was asked for, or leave the option out."},
	{ruleBlockSize, "RFC 2348; curl, U-Boot, barebox, busybox give up", "Confirm the block size that was asked for, or a smaller one, but not below 8; busybox refuses 8, too."},
	{ruleBlockLong, "RFC 2348", "A block was longer than agreed on. Update the server."},
	{ruleFragments, "NIC ROMs cannot put fragments together", "Bound the server's block size by the MTU less 32 bytes (52 with IPv6): 1468 on Ethernet."},
	{ruleWindow, "RFC 7440", "Confirm the window that was asked for, or a smaller one, but not 0."},
	{ruleWindowExceeded, "RFC 1350 §2, RFC 7440; GRUB 2", "The server sends more blocks than agreed on before it has an ACK. Turn \"anticipation\" off: GRUB may take such blocks for others."},
	{ruleWindowShort, "RFC 7440 §4", "The server confirmed a window and does not fill it, so each one costs the client a timeout."},
	{ruleRewind, "RFC 7440 §4; U-Boot reports a gap once", "The server must go back at the first repeated ACK. U-Boot waits 5 s for each lost packet otherwise; set windowsize to 1 in its environment."},
	{ruleFirstBlock, "RFC 1350 §5; U-Boot begins again", "The first DATA must be block 1."},
	{ruleRollover, "curl, tftp-hpa, atftp, busybox, U-Boot take 0 only", "Let block 0 follow block 65535, or larger blocks be used: 65535 of 512 bytes are 32 MiB."},
	{ruleOptionCase, "RFC 2347", "Option names count in upper and in lower case."},
	{ruleModeCase, "RFC 1350 §5", "The mode counts in upper and in lower case."},
	{ruleRepeat, "Raspberry Pi and other ROMs repeat requests within milliseconds", "The same request from the same port is one transfer; two of them double the load of a boot storm."},
	{ruleReset, "U-Boot's and lwIP's ports come again after a reset", "A new request from a port with a transfer under way must begin anew."},
	{ruleProbe, "UEFI PXE (ERROR 8), iPXE, GRUB 2 and Raspberry Pi (ERROR 0)", "An ERROR after the OACK is a client that wanted to know the size. Serve its next request."},
	{ruleApprentice, "RFC 1123 §4.2.3.1", "A repeated ACK must not be answered by DATA, or every packet is sent twice from then on."},
	{ruleOACKLost, "RFC 2347", "Send the OACK again if it is not acknowledged: one lost packet ends the transfer otherwise."},
	{ruleResend, "RFC 1350 §2", "A block sent again must be the block that was sent. Update the server: who loses a packet gets a broken file."},
	{ruleSilent, "forged requests make servers flood others", "Bound how often an unacknowledged answer is sent again, and keep the server off the open Internet."},
	{rulePort, "RFC 1350 §4", "A transfer stays at the port that answered first. Look for a NAT or a load balancer between."},
	{ruleAddress, "RFC 1350 §4; NIC ROMs drop other answers", "Answer from the address that was asked: bind the server to one address, or use one that does so by itself."},
	{ruleStray, "RFC 1350 §4", "A packet from another port must not touch the transfer."},
	{ruleStrayQuiet, "RFC 1350 §4", "A packet from an unknown port is to be answered by ERROR 5."},
	{ruleLastAck, "some boot ROMs start what they loaded without the last ACK", "A transfer whose last ACK is missing must not keep the server from the next request."},
	{ruleMissing, "RFC 1350 appendix; U-Boot tries for ever on other codes", "Answer ERROR 1 for a file that is not there."},
	{ruleErrorNUL, "RFC 1350 §5", "The text of an ERROR ends in a NUL; without it clients print what lies behind it in memory."},
	{ruleTraversal, "what every server is attacked with first", "The server gives out a file from outside its directory. Take it off the network and update it."},
	{ruleBadPacket, "some servers end at a malformed packet", "The server went silent after malformed packets. Update it, and have it restarted meanwhile."},
	{ruleSlash, "GRUB 2 sends a leading slash, iPXE and barebox strip it", "Serve a name with and without a leading slash alike; with tftpd-hpa by --secure."},
	{ruleUpload, "RFC 1350 §4", "The upload was not taken, or came back changed. See the server's settings for uploads and its log."},
	{ruleUploadRepeat, "RFC 1350 §6", "The last block of an upload came again, as after a lost ACK, and was not acknowledged again."},
}
