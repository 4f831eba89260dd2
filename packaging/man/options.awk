# SPDX-License-Identifier: GPL-2.0-or-later
# Converts the options in a text of --help to roff: headings become sections, options tagged paragraphs. Lines and
# columns in an option's text are preserved. START is the first line of the options, WIDTH the column before their
# texts; 0: texts begin after two blanks.

function roff(text,    blanks, i) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    while (match(text, /  +/)) {
        blanks = ""
        for (i = 0; i < RLENGTH; i++) blanks = blanks "\\ "
        text = substr(text, 1, RSTART - 1) blanks substr(text, RSTART + RLENGTH)
    }
    return text ~ /^[.']/ ? "\\&" text : text
}

function say(text) {
    if (text == "") return
    if (lines++ && !filled) print ".br"
    print roff(text)
}

# A line at the margin that begins with a word and ":" or " (": the word is the heading.
function section(    name, text) {
    name = $0
    sub(/( \(|:).*/, "", name)
    printf ".SS %s\n", name
    lines = 0
    filled = 1
    text = substr($0, length(name) + 2)
    sub(/^ /, "", text)
    say(text)
}

function option(    term, text) {
    term = substr($0, indent + 1)
    if (WIDTH == 0 && match(term, /  +/)) {
        text = substr(term, RSTART + RLENGTH)
        term = substr(term, 1, RSTART - 1)
    } else if (WIDTH && length($0) > WIDTH && substr($0, WIDTH, 1) == " ") {
        text = substr($0, WIDTH + 1)
        term = substr($0, indent + 1, WIDTH - indent - 1)
    }
    sub(/ +$/, "", term)
    printf ".TP\n.B %s\n", roff(term)
    lines = 0
    filled = 0
    say(text)
}

/^Exit status:/ { exit }
index($0, START) == 1 { ready = 1 }
!ready { next }
/^$/ { next }
/^[A-Z][A-Za-z ]+(:| \()/ { section(); next }
/^ +-/ { match($0, /^ +/); indent = RLENGTH; option(); next }
WIDTH == 0 { sub(/^ +/, ""); say($0); next }
{ say(substr($0, 1, WIDTH) ~ /[^ ]/ ? $0 : substr($0, WIDTH + 1)) }
