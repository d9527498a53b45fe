# Draws every plot of the bench. `data` is the path of a tab-separated table, whose first line names the columns.
# Columns after the first `series` series are not drawn. The bench also sets `svg`, `title`, `y_label` and, for lines,
# `x_label`.

set terminal svg size 900,440 dynamic background rgb 'white' font 'sans-serif,13'
set output svg
set datafile separator "\t"
set datafile missing '?'
set title title noenhanced
set ylabel y_label noenhanced
set yrange [0:*]
set format y "%'.10g"
set grid ytics linecolor rgb '#dddddd'
set ytics nomirror
set xtics nomirror noenhanced
set key outside bottom center horizontal noenhanced

if (exists('x_label')) {
    # Columns: the position on the x axis, and a value of each series. The first three series have strong colors; up
    # to three more, with which they are compared, have pale ones.
    set border 3
    set xlabel x_label noenhanced
    set logscale y
    set yrange [*:*]
    colors = '#1f4e9e #d97706 #b91c1c #a9c1e8 #f6d29b #f0aaaa'
    # Pale series first, so that strong ones are on top.
    place(i) = (i + 2) % series + 1
    plot for [i=1:series] data using 1:place(i)+1 with lines linewidth 1.5 linecolor rgb word(colors, place(i)) \
         title columnheader(place(i)+1)
} else {
    # Columns: the name of a group of bars, and the median, minimum and maximum of each series.
    set border 3
    set xtics scale 0
    set style data histograms
    set style histogram errorbars gap 1 linewidth 1
    set style fill solid 0.9 noborder
    set errorbars 0.6 linecolor rgb '#333333'
    plot for [i=2:3*series:3] data using i:i+1:i+2:xtic(1) title columnheader(i)
}
