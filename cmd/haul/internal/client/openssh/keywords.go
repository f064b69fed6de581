package openssh

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// A keyword describes one keyword of ssh_config(5).
type keyword struct {
	check  check
	same   string // the keyword's usual name, if this is an old or alternative name for it
	unused bool   // the keyword has no effect in haul
	noted  bool   // haul lacks the feature that the keyword requests, and prints a warning
	multi  bool   // all lines with this keyword count, and not only the first one
}

// keywords holds the keywords that have a meaning in haul. It does not contain Host, Match,
// Include, ProxyCommand and ProxyJump, whose arguments have a special syntax: config.go handles
// them.
var keywords = map[string]keyword{
	"addressfamily":                    {check: oneOf("any", "inet", "inet6")},
	"batchmode":                        {check: yesNo},
	"bindaddress":                      {check: word},
	"bindinterface":                    {check: word},
	"canonicaldomains":                 {check: many},
	"canonicalizefallbacklocal":        {check: yesNo},
	"canonicalizehostname":             {check: oneOf("yes", "no", "true", "false", "always")},
	"canonicalizemaxdots":              {check: number},
	"casignaturealgorithms":            {check: algorithms(publicKeyUniverse)},
	"certificatefile":                  {check: word, multi: true},
	"ciphers":                          {check: algorithms(cipherUniverse)},
	"connectionattempts":               {check: number},
	"connecttimeout":                   {check: seconds},
	"globalknownhostsfile":             {check: files},
	"hashknownhosts":                   {check: yesNo},
	"hostkeyalgorithms":                {check: algorithms(hostKeyUniverse)},
	"hostkeyalias":                     {check: word},
	"hostname":                         {check: word},
	"identitiesonly":                   {check: yesNo},
	"identityagent":                    {check: word},
	"identityfile":                     {check: word, multi: true},
	"ignoreunknown":                    {check: word},
	"kbdinteractiveauthentication":     {check: yesNo},
	"kexalgorithms":                    {check: algorithms(kexUniverse)},
	"loglevel":                         {check: oneOf("QUIET", "FATAL", "ERROR", "INFO", "VERBOSE", "DEBUG", "DEBUG1", "DEBUG2", "DEBUG3")},
	"macs":                             {check: algorithms(macUniverse)},
	"nohostauthenticationforlocalhost": {check: yesNo},
	"numberofpasswordprompts":          {check: number},
	"passwordauthentication":           {check: yesNo},
	"port":                             {check: port},
	"preferredauthentications":         {check: word},
	"proxyusefdpass":                   {check: yesNo},
	"pubkeyacceptedalgorithms":         {check: algorithms(publicKeyUniverse)},
	"pubkeyauthentication":             {check: oneOf("yes", "no", "true", "false", "unbound", "host-bound")},
	"refuseconnection":                 {check: word},
	"rekeylimit":                       {check: rekeyLimit},
	"requiredrsasize":                  {check: number},
	"revokedhostkeys":                  {check: word},
	"serveralivecountmax":              {check: number},
	"serveraliveinterval":              {check: seconds},
	"stricthostkeychecking":            {check: oneOf("yes", "no", "true", "false", "ask", "off", "accept-new")},
	"tag":                              {check: word},
	"tcpkeepalive":                     {check: yesNo},
	"user":                             {check: word},
	"userknownhostsfile":               {check: files},

	"challengeresponseauthentication": {same: "kbdinteractiveauthentication"},
	"dsaauthentication":               {same: "pubkeyauthentication"},
	"identityfile2":                   {same: "identityfile"},
	"keepalive":                       {same: "tcpkeepalive"},
	"protocolkeepalives":              {same: "serveraliveinterval"}, // Debian's name
	"pubkeyacceptedkeytypes":          {same: "pubkeyacceptedalgorithms"},
	"setuptimeout":                    {same: "serveraliveinterval"}, // Debian's name
	"skeyauthentication":              {same: "kbdinteractiveauthentication"},
	"tisauthentication":               {same: "kbdinteractiveauthentication"},
}

// notedKeywords lists the keywords that OpenSSH implements and haul does not, and whose absence
// matters: without them a connection fails, or less is checked.
const notedKeywords = `canonicalizepermittedcnames checkhostip compression
	hostbasedauthentication knownhostscommand permitlocalcommand pkcs11provider
	securitykeyprovider verifyhostkeydns`

// unusedKeywords lists keywords that have no effect in haul, because they are obsolete, or because
// they concern terminals, forwarding and other programs. UseKeychain and AddKeysToKeychain are
// Apple's.
const unusedKeywords = `addkeystoagent addkeystokeychain afstokenpassing
	askpassgui channeltimeout cipher clearallforwardings compressionlevel
	controlmaster controlpath controlpersist dynamicforward
	enableescapecommandline enablesshkeysign escapechar exitonforwardfailure
	fallbacktorsh fingerprinthash forkafterauthentication forwardagent
	forwardx11 forwardx11timeout forwardx11trusted gatewayports
	globalknownhostsfile2 gssapiauthentication gssapiclientidentity
	gssapidelegatecredentials gssapikexalgorithms gssapikeyexchange
	gssapirenewalforcesrekey gssapiserveridentity gssapitrustdns
	hostbasedacceptedalgorithms hostbasedkeytypes ipqos kbdinteractivedevices
	kerberosauthentication kerberostgtpassing localcommand localforward
	logverbose obscurekeystroketiming permitremoteopen protocol
	remotecommand remoteforward requesttty rhostsauthentication
	rhostsrsaauthentication rsaauthentication sendenv sessiontype setenv
	smartcarddevice stdinnull streamlocalbindmask streamlocalbindunlink
	syslogfacility tunnel tunneldevice updatehostkeys usekeychain
	useprivilegedport userknownhostsfile2 useroaming usersh versionaddendum
	visualhostkey warnweakcrypto xauthlocation`

func init() {
	for k := range strings.FieldsSeq(notedKeywords) {
		keywords[k] = keyword{check: many, noted: true}
	}
	for k := range strings.FieldsSeq(unusedKeywords) {
		keywords[k] = keyword{check: many, unused: true}
	}
}

// isOff reports whether the arguments of a keyword turn its feature off. In this case it does not
// matter that haul lacks the feature.
func isOff(args []string) bool {
	switch strings.ToLower(args[0]) {
	case "no", "false", "none", "internal":
		return true
	}
	return false
}

// These are all algorithms of golang.org/x/crypto/ssh, weak ones included. Weak ones are used only
// if they are configured by name, and RC4 is never used (RFC 8758).
var (
	secure, insecure = ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()

	kexUniverse       = append(secure.KeyExchanges, insecure.KeyExchanges...)
	cipherUniverse    = slices.DeleteFunc(append(secure.Ciphers, insecure.Ciphers...), isRC4)
	macUniverse       = append(secure.MACs, insecure.MACs...)
	hostKeyUniverse   = append(secure.HostKeys, insecure.HostKeys...)
	publicKeyUniverse = withCertificates(append(secure.PublicKeyAuths, insecure.PublicKeyAuths...))
)

func isRC4(cipher string) bool { return strings.HasPrefix(cipher, "arcfour") }
